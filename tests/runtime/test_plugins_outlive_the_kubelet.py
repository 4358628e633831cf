"""Resources stay registered, over real sockets, whatever the kubelet does."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from grpc import StatusCode, aio

from gpustack_op.agent.injection.nvidia import NvidiaInjector
from gpustack_op.agent.plugin.kubelet import KubeletError, PodResourcesClient
from gpustack_op.agent.plugin.pod_book import PodBook
from gpustack_op.agent.plugin.record_writer import RecordWriter
from gpustack_op.agent.plugin.registration import Timing
from gpustack_op.agent.plugin.wiring import DevicePlugin, Surroundings, device_plugin
from gpustack_op.agent.preflight import Folders
from gpustack_op.agent.proto.podresources_pb2 import ContainerDevices, ContainerResources, PodResources
from gpustack_op.api.core import PODS
from gpustack_op.runtime.metrics import Metrics
from gpustack_op.scheduling.manufacturers import Manufacturer, Manufacturers
from tests.builders import cards_of, given, pod, whole_entry
from tests.memory_cluster import without_nones
from tests.runtime.kubelet_double import KubeletDouble
from tests.runtime.memory_api import MemoryApi
from tests.runtime.plugin_stand import Cache, Tray, ids, slices, whole
from tests.waiting import until

RESOURCES = [
    "device.gpustack.ai/nvidia.visibility",
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    "nvidia.com/gpu.sliced",
]
QUICK = Timing(period=0.02, stream=0.3)
WAITS: dict[str, Any] = {"phase": "Pending"}


class Agent:
    """An agent's device plugin. `settle` is what its reporter does with each pass."""

    def __init__(self, root: Path, api: MemoryApi, **instead: Any) -> None:
        self.cards = [cards_of("x", 2)]
        self.metrics = Metrics()
        cache = Cache(api)

        async def read() -> list[Any]:
            return cache.present()

        around = Surroundings(
            folders=Folders(root / "kubelet", root / "state", root / "lock"),
            detector=None,
            sight=lambda: None,
            groups=lambda: self.cards,
            pods=PodBook(cache, read),
            writer=RecordWriter(api, "agent"),
            injectors={"nvidia": NvidiaInjector(root / "state", cdi=lambda: False, locks=root / "vgpu")},
            wake=lambda: None,
            tell=lambda _pod, _sentence: None,
            metrics=self.metrics,
            timing=QUICK,
        )
        self.made: DevicePlugin = device_plugin(replace(around, **instead))
        self.settle = self.made.bookkeeper.settle

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        stop = asyncio.Event()
        tasks = [asyncio.create_task(each.run(stop)) for each in self.made.runnables]
        try:
            yield
        finally:
            stop.set()
            await asyncio.wait_for(asyncio.gather(*tasks), 10)


class Node:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.api = MemoryApi()
        self.kubelet = KubeletDouble(root / "kubelet")
        self.agent = Agent(root, self.api)

    def add(self, *pods: Any) -> None:
        for each in pods:
            self.api.put(PODS, without_nones(msgspec.to_builtins(each)))

    def admits(self, name: str) -> None:
        self.kubelet.pods.append(PodResources(name=name, namespace="default"))


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    with TemporaryDirectory(prefix="node") as folder:
        made = Node(Path(folder))
        yield made
        await made.kubelet.stop()


def sockets(node: Node) -> list[str]:
    return sorted(path.name for path in node.kubelet.plugins.iterdir() if path.name != "kubelet.sock")


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_every_family_is_offered_with_its_cards(node: Node) -> None:
    await node.kubelet.start()
    async with node.agent.running():
        await node.kubelet.listed(*RESOURCES)
        assert sorted(node.kubelet.registered) == RESOURCES
        assert node.kubelet.healthy("nvidia.com/gpu") == ["x:x/0:0000", "x:x/1:0000"]
        assert len(node.kubelet.healthy("nvidia.com/gpu.shared")) == 20
        assert len(node.kubelet.healthy("nvidia.com/gpu.sliced")) == 256
    assert sockets(node) == []


async def test_a_kubelet_that_restarts_five_times_finds_us_each_time(node: Node) -> None:
    await node.kubelet.start()
    async with node.agent.running():
        await node.kubelet.listed(*RESOURCES)
        files = open_files()
        for _ in range(5):
            await node.kubelet.stop()
            await node.kubelet.start()
            await node.kubelet.listed(*RESOURCES)
            assert sorted(node.kubelet.registered) == RESOURCES
            assert [len(node.kubelet.lists[resource]) for resource in RESOURCES] == [1, 1, 1, 1]
            assert len(sockets(node)) == len(RESOURCES)
        assert open_files() <= files + 4


async def test_a_folder_that_is_not_there_yet_and_a_first_refusal_are_waited_for(node: Node) -> None:
    async with node.agent.running():
        await until(lambda: _has_tried(node), every=0.01)
        node.kubelet.refusals = 3
        await node.kubelet.start()
        await node.kubelet.listed(*RESOURCES)
        assert sorted(node.kubelet.registered) == RESOURCES


async def _has_tried(node: Node) -> bool:
    return len(node.agent.made.plugins.registrations) == len(RESOURCES)


async def test_a_stream_that_is_closed_is_registered_anew(node: Node) -> None:
    await node.kubelet.start()
    async with node.agent.running():
        await node.kubelet.listed(*RESOURCES)
        await node.kubelet.drop("nvidia.com/gpu")
        await node.kubelet.listed("nvidia.com/gpu", times=2)
        assert sorted(node.kubelet.registered) == sorted([*RESOURCES, "nvidia.com/gpu"])


async def test_a_stream_that_is_never_opened_is_registered_anew(node: Node) -> None:
    node.kubelet.opens_streams = False
    await node.kubelet.start()
    async with node.agent.running():
        await until(lambda: _is_registered(node, len(RESOURCES)), every=0.01)
        node.kubelet.opens_streams = True
        await node.kubelet.listed(*RESOURCES)


async def _is_registered(node: Node, times: int) -> bool:
    return len(node.kubelet.registered) >= times


async def test_a_list_is_sent_only_when_it_differs(node: Node) -> None:
    await node.kubelet.start()
    async with node.agent.running():
        await node.kubelet.listed(*RESOURCES)
        for _ in range(3):
            await node.agent.settle()
        node.agent.cards = [cards_of("x", 2, sick=[1])]
        node.agent.made.stirred()
        await node.kubelet.listed(*RESOURCES, times=2)
        assert node.kubelet.healthy("nvidia.com/gpu") == ["x:x/0:0000"]
        assert [len(node.kubelet.lists[resource]) for resource in RESOURCES] == [2, 2, 2, 2]


async def test_a_driver_that_fails_wholly_leaves_only_what_is_held(node: Node) -> None:
    node.add(pod("p", whole(), record=given(whole_entry("x/0"), ids=ids("x/0"))))
    await node.kubelet.start()
    async with node.agent.running():
        await node.kubelet.listed(*RESOURCES)
        node.agent.cards = [cards_of("x", 2, sick=[0, 1])]
        node.agent.made.stirred()
        await node.kubelet.listed("nvidia.com/gpu", times=2)
        assert node.kubelet.healthy("nvidia.com/gpu") == ["x:x/0:0000"]


async def test_a_pod_gets_its_card_and_the_other_families_learn_of_it_at_once(node: Node) -> None:
    node.add(pod("p", whole(), **WAITS))
    await node.kubelet.start()
    async with node.agent.running():
        await node.kubelet.listed(*RESOURCES)
        node.admits("p")
        assert await node.kubelet.preferred("nvidia.com/gpu", ids("x/0", "x/1"), 1) == ids("x/0")
        answer = await node.kubelet.allocate("nvidia.com/gpu", ids("x/0"))
        assert dict(answer.envs) == {"NVIDIA_VISIBLE_DEVICES": "x/0"}
        await node.kubelet.listed("nvidia.com/gpu.shared", times=2)
        assert len(node.kubelet.healthy("nvidia.com/gpu.shared")) == 10
        assert node.kubelet.healthy("nvidia.com/gpu") == ["x:x/0:0000", "x:x/1:0000"]


async def test_a_refusal_keeps_its_code_and_its_sentence(node: Node) -> None:
    node.add(pod("other", record=given(whole_entry("x/0"), ids=ids("x/0"))), pod("p", slices(10), **WAITS))
    await node.kubelet.start()
    async with node.agent.running():
        await node.kubelet.listed(*RESOURCES)
        node.admits("p")
        with pytest.raises(aio.AioRpcError) as caught:
            await node.kubelet.allocate("nvidia.com/gpu.sliced", ids("x/0"))
        assert caught.value.code() is StatusCode.FAILED_PRECONDITION
        assert caught.value.details() == "card x/0 is held as exclusive and was asked for as sliced"


async def test_one_agent_of_a_node_is_active_and_the_next_takes_over(node: Node) -> None:
    await node.kubelet.start()
    following = Agent(node.root, node.api)
    async with node.agent.running():
        await node.kubelet.listed(*RESOURCES)
        stop = asyncio.Event()
        waiting = [asyncio.create_task(each.run(stop)) for each in following.made.runnables]
        assert await following.settle() is None
        assert not following.made.plugins.active
    await node.kubelet.listed(*RESOURCES, times=2)
    assert following.made.plugins.active
    assert await following.settle() is not None
    stop.set()
    await asyncio.wait_for(asyncio.gather(*waiting), 10)


async def test_an_invented_manufacturer_needs_a_row_and_an_injector(node: Node) -> None:
    row = Manufacturer("acme", "1234", "acme.com/tpu", "acme", logical_slices=4)
    agent = Agent(node.root, node.api, manufacturers=Manufacturers([row]), injectors={"acme": Tray()})
    agent.cards = [cards_of("x", 2, slices=4, manufacturer="acme")]
    node.add(pod("p", {"acme.com/tpu": "1"}, **WAITS))
    await node.kubelet.start()
    async with agent.running():
        await node.kubelet.listed("acme.com/tpu", "acme.com/tpu.sliced", "device.gpustack.ai/acme.visibility")
        assert len(node.kubelet.healthy("acme.com/tpu.sliced")) == 8
        node.admits("p")
        answer = await node.kubelet.allocate("acme.com/tpu", ids("x/1"))
        assert dict(answer.envs) == {"CARDS": "x/1"}


async def test_a_kubelet_tells_blocks_and_pods_without_devices(node: Node) -> None:
    await node.kubelet.start()
    client = PodResourcesClient(node.kubelet.resources / "kubelet.sock")
    blocks = [ContainerDevices(resource_name="nvidia.com/gpu", device_ids=[one]) for one in ("b", "a", "a")]
    empty = ContainerDevices(resource_name="nvidia.com/gpu.shared")
    node.kubelet.pods = [
        PodResources(name="p", namespace="n", containers=[ContainerResources(name="c", devices=[*blocks, empty])]),
        PodResources(name="q", namespace="n"),
        PodResources(name="q", namespace="n"),
    ]
    report = await client.report()
    assert report.pods["n", "p"] == {"c": {"nvidia.com/gpu": frozenset({"a", "b"})}}
    assert report.awaits(("n", "q"), "c", "nvidia.com/gpu")
    assert not report.awaits(("n", "p"), "c", "nvidia.com/gpu")
    assert not report.awaits(("n", "stranger"), "c", "nvidia.com/gpu")
    assert report.ambiguous == {("n", "q")}


async def test_a_kubelet_that_is_not_there_is_told_as_such(node: Node) -> None:
    with pytest.raises(KubeletError, match=r"kubelet\.sock"):
        await PodResourcesClient(node.kubelet.resources / "kubelet.sock").report()
