"""The Workload webhook, asked by a real API server: what it pins, and that Workloads pass while nobody answers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from devcluster import state
from devcluster.cluster import Scope
from devcluster.handle import RunningCluster, running
from gpustack_op.api.kueue import CLUSTER_QUEUES
from gpustack_op.runtime.client import Client
from tests.controlplane.judging import add_local_queue, add_type, judging
from tests.waiting import until

POOL = "pinned-t4"
SLICED = "nvidia.com/gpu.sliced"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PIN = {
    "key": "sliced-max-free-units.fit.gpustack.ai/nvidia-tesla-t4",
    "operator": "Gt",
    "values": ["799999"],
}

Json = dict[str, Any]


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[RunningCluster]:
    """One of its own: Pods with a queue label are refused there once the webhooks are gone."""
    with running(f"test-pinned-{os.getpid()}", scope=Scope.CONTROL_PLANE, say=print) as up:
        yield up
    if not request.session.testsfailed:
        state.forget(up.layout)


async def add_pool(client: Client) -> str:
    """A pool of T4, and its entrance in the namespace `default`."""
    entrance = await add_type(client, POOL, "nvidia-tesla-t4", None)
    marks = {"resource.gpustack.ai/type": "instancetypes"}
    await client.create(CLUSTER_QUEUES, {"metadata": {"name": POOL, "labels": marks}, "spec": {}})
    await add_local_queue(client, entrance, "default", POOL)
    return entrance


async def made(client: Client, queue: str) -> Json | None:
    """The affinity of a Workload that asks for half a card, as it would be stored."""
    amounts = {SLICED: "1", f"{SLICED}.units": "800k"}
    container = {"name": "main", "image": "example.com/none", "resources": {"requests": amounts, "limits": amounts}}
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    body = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "half"},
        "spec": {"queueName": queue, "podSets": [pod_set]},
    }
    path = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads"
    answer = await client.raw("POST", path, params={"dryRun": "All"}, body=msgspec.json.encode(body))
    stored: Json = msgspec.json.decode(answer)
    affinity: Json | None = stored["spec"]["podSets"][0]["template"]["spec"].get("affinity")
    return affinity


async def test_what_enters_a_pool_is_pinned_to_room_while_somebody_answers(cluster: RunningCluster) -> None:
    async with judging(cluster.administrator) as client:
        entrance = await add_pool(client)

        async def pinned() -> bool:
            return await made(client, entrance) is not None

        await until(pinned)
        affinity = await made(client, entrance)
        assert affinity == {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [PIN]}]}}}
        assert await made(client, "somebody-elses") is None
    async with Client(cluster.administrator) as client:
        assert await made(client, entrance) is None
