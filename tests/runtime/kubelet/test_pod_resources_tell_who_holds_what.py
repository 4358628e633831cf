from __future__ import annotations

import asyncio

import grpc
import pytest
from grpc import aio

from gpustack_op.agent.proto.podresources_pb2 import (
    AllocatableResourcesRequest,
    GetPodResourcesRequest,
    ListPodResourcesRequest,
)
from tests.runtime.kubelet.bench import CARD, container, pod
from tests.runtime.kubelet.plugin import SICK, devices
from tests.runtime.kubelet.stand import Stand


async def test_each_id_has_a_block_of_its_own(simulated: Stand) -> None:
    await simulated.plugin("a", "b")
    assert await simulated.admit(pod("1", main={CARD: 2})) == ""
    answer = await simulated.resources.List(ListPodResourcesRequest())
    (told,) = answer.pod_resources
    assert (told.namespace, told.name) == ("default", "pod-1")
    blocks = [(block.resource_name, list(block.device_ids)) for block in told.containers[0].devices]
    assert sorted(blocks) == [(CARD, ["a"]), (CARD, ["b"])]


async def test_sidecars_are_told_and_plain_init_containers_are_not(simulated: Stand) -> None:
    await simulated.plugin("a", "b", "c")
    sidecar = container("side", {CARD: 1}, restartPolicy="Always")
    assert await simulated.admit(pod("1", init=[container("first", {CARD: 1}), sidecar], main={CARD: 1})) == ""
    answer = await simulated.resources.List(ListPodResourcesRequest())
    assert [each.name for each in answer.pod_resources[0].containers] == ["side", "main"]


async def test_pods_without_devices_are_told_too(simulated: Stand) -> None:
    assert await simulated.admit(pod("1", main={"cpu": 1})) == ""
    answer = await simulated.resources.List(ListPodResourcesRequest())
    assert [len(each.devices) for told in answer.pod_resources for each in told.containers] == [0]


async def test_one_pod_can_be_asked_for(simulated: Stand) -> None:
    await simulated.plugin("a")
    assert await simulated.admit(pod("1", main={CARD: 1})) == ""
    answer = await simulated.resources.Get(GetPodResourcesRequest(pod_name="pod-1", pod_namespace="default"))
    assert answer.pod_resources.containers[0].devices[0].device_ids == ["a"]


async def test_a_pod_that_is_not_active_is_not_found(simulated: Stand) -> None:
    with pytest.raises(aio.AioRpcError) as caught:
        await simulated.resources.Get(GetPodResourcesRequest(pod_name="one", pod_namespace="default"))
    assert caught.value.code() is grpc.StatusCode.UNKNOWN
    assert caught.value.details() == "pod one in namespace default not found"


async def test_all_healthy_ids_are_told_held_or_not(simulated: Stand) -> None:
    plugin = await simulated.plugin("a", "b")
    assert await simulated.admit(pod("1", main={CARD: 1})) == ""
    plugin.offer([*devices("a", "b"), *devices("c", health=SICK)])
    await simulated.offers(2, 3)
    answer = await simulated.resources.GetAllocatableResources(AllocatableResourcesRequest())
    assert sorted(block.device_ids[0] for block in answer.devices) == ["a", "b"]


async def test_more_than_ten_calls_at_once_are_too_many(simulated: Stand) -> None:
    calls = [simulated.resources.List(ListPodResourcesRequest()) for _ in range(60)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    refusals = [(each.code(), each.details()) for each in answers if isinstance(each, aio.AioRpcError)]
    assert set(refusals) == {(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")}
    assert len(refusals) <= 50
