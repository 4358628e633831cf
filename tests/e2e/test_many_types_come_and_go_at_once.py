"""Twenty InstanceTypes created with one command, and deleted with another."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from devcluster.kubectl import Kubectl
from gpustack_op.runtime.client import Client
from gpustack_op.scheduling import names
from tests.e2e.end_state import difference, end_state
from tests.e2e.looking import CLUSTER_QUEUES, INSTANCE_TYPES, LOCAL_QUEUES, Looking
from tests.e2e.waiting import eventually

TYPES = [f"many-{number}" for number in range(20)]


def manifest(name: str, size: int) -> dict[str, object]:
    spec = {
        "acceleratable": True,
        "acceleratorGroup": "nvidia-tesla-t4",
        "os": "linux",
        "arch": "amd64",
        "unitResources": {"cpu": size, "ram": f"{size}Gi"},
    }
    return {
        "apiVersion": "worker.gpustack.ai/v1",
        "kind": "InstanceType",
        "metadata": {"name": name},
        "spec": spec,
    }


@pytest.fixture
async def deleted_afterwards(kubectl: Kubectl) -> AsyncIterator[None]:
    yield
    await kubectl("delete", "instancetypes", "--ignore-not-found", *TYPES)


@pytest.mark.usefixtures("deleted_afterwards")
async def test_each_gets_its_queue_and_its_entrances_and_all_of_it_goes(kubectl: Kubectl, client: Client) -> None:
    looking = Looking(client)
    before = await end_state(looking)

    async def active() -> set[str]:
        return {t["metadata"]["name"] for t in await looking.all(INSTANCE_TYPES) if t["status"].get("phase") == "Active"}

    manifests = [manifest(name, size) for size, name in enumerate(TYPES, start=1)]
    everything = {"apiVersion": "v1", "kind": "List", "items": manifests}
    await kubectl("create", "-f", "-", stdin=json.dumps(everything))
    await eventually(active, when=set(TYPES).issubset, within=40)
    entrances = {names.entrance(name) for name in TYPES}
    await eventually(lambda: looking.names(LOCAL_QUEUES, "default"), when=entrances.issubset)
    assert set(TYPES) <= set(await looking.names(CLUSTER_QUEUES))
    now = await end_state(looking)
    assert difference(before, {name: now[name] for name in before}) == []

    await kubectl("delete", "instancetypes", "--timeout=60s", *TYPES)
    assert not set(TYPES) & set(await looking.names(INSTANCE_TYPES))

    async def left() -> list[str]:
        return difference(before, await end_state(looking))

    await eventually(left, when=lambda left: left == [], within=30)
