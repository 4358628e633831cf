"""Every pool has an entrance in every open namespace, whatever people do to them."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator

import pytest

from devcluster.kubectl import Kubectl
from gpustack_op.runtime.client import Client
from gpustack_op.scheduling import names
from tests.e2e.looking import CLUSTER_QUEUES, LOCAL_QUEUES, NAMESPACES, Looking
from tests.e2e.waiting import eventually

POOL = "gpustack--generic-linux-amd64"
ENTRANCE = names.entrance(POOL)
CLOSED = {"gpustack-system", "kube-node-lease", "kube-public", "kube-system", "kueue-system", "nfd"}


@pytest.fixture
def looking(client: Client) -> Looking:
    return Looking(client)


@pytest.fixture
async def foreign_queue(kubectl: Kubectl) -> AsyncIterator[str]:
    """A person's own way into the pool."""
    spec = {"clusterQueue": POOL, "stopPolicy": "Hold"}
    metadata = {"name": "my-own", "namespace": "default"}
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": metadata, "spec": spec}
    await kubectl("create", "-f", "-", stdin=json.dumps(queue))
    yield "my-own"
    await kubectl("-n", "default", "delete", "localqueue", "my-own")


async def test_a_deleted_entrance_is_put_back(kubectl: Kubectl, looking: Looking) -> None:
    before = await looking.find(LOCAL_QUEUES, ENTRANCE, "default")
    await kubectl("-n", "default", "delete", "localqueue", ENTRANCE)

    async def again() -> bool:
        now = await looking.find(LOCAL_QUEUES, ENTRANCE, "default")
        return bool(now) and now["metadata"]["uid"] != before["metadata"]["uid"] and now["spec"] == before["spec"]

    await eventually(again)


async def test_a_stopped_entrance_is_opened_again(kubectl: Kubectl, looking: Looking) -> None:
    patch = '{"spec":{"stopPolicy":"Hold"}}'
    await kubectl("-n", "default", "patch", "localqueue", ENTRANCE, "--type=merge", "-p", patch)

    async def stop_policy() -> str:
        return str((await looking.find(LOCAL_QUEUES, ENTRANCE, "default"))["spec"]["stopPolicy"])

    await eventually(stop_policy, "None")


async def test_a_queue_of_another_name_is_left_alone(foreign_queue: str, kubectl: Kubectl, looking: Looking) -> None:
    before = await looking.find(LOCAL_QUEUES, foreign_queue, "default")
    await kubectl("-n", "default", "delete", "localqueue", ENTRANCE)
    await eventually(lambda: looking.find(LOCAL_QUEUES, ENTRANCE, "default"))
    now = await looking.find(LOCAL_QUEUES, foreign_queue, "default")
    assert (now["spec"], now["metadata"]["uid"]) == (before["spec"], before["metadata"]["uid"])
    assert now["metadata"]["generation"] == 1


async def test_only_open_namespaces_have_entrances(looking: Looking) -> None:
    namespaces = set(await looking.names(NAMESPACES))
    assert namespaces >= CLOSED
    entered = {item["metadata"]["namespace"] for item in await looking.all(LOCAL_QUEUES)}
    assert not entered & CLOSED
    assert "default" in entered


async def test_a_new_namespace_gets_an_entrance_to_every_pool(kubectl: Kubectl, looking: Looking) -> None:
    namespace = f"team-{uuid.uuid4().hex[:8]}"
    await kubectl("create", "namespace", namespace)
    entrances = sorted(names.entrance(pool) for pool in await looking.names(CLUSTER_QUEUES))
    await eventually(lambda: looking.names(LOCAL_QUEUES, namespace), entrances)
    await kubectl("delete", "namespace", namespace, "--timeout=40s")
