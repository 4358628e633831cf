"""Twenty InstanceTypes created at once, and deleted at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from devcluster.kubectl import Kubectl
from gpustack_op.runtime.client import Client
from gpustack_op.scheduling import names
from tests.e2e.end_state import difference, end_state
from tests.e2e.looking import CLUSTER_QUEUES, INSTANCE_TYPES, LOCAL_QUEUES, Looking
from tests.e2e.waiting import eventually

TYPES = [f"many-{number}" for number in range(20)]


def manifest(name: str) -> dict[str, object]:
    spec = {"acceleratable": True, "acceleratorGroup": "nvidia-tesla-t4", "os": "linux", "arch": "amd64"}
    return {"metadata": {"name": name}, "spec": spec}


@pytest.fixture
async def deleted_afterwards(kubectl: Kubectl) -> AsyncIterator[None]:
    yield
    await kubectl("delete", "instancetypes", "--ignore-not-found", *TYPES)


@pytest.mark.usefixtures("deleted_afterwards")
async def test_each_gets_its_queue_and_its_entrances_and_all_of_it_goes(client: Client) -> None:
    looking = Looking(client)
    before = await end_state(looking)

    async def active() -> set[str]:
        types = await looking.all(INSTANCE_TYPES)
        return {type_["metadata"]["name"] for type_ in types if type_.get("status", {}).get("phase") == "Active"}

    async def changes() -> list[str]:
        return difference(before, await end_state(looking))

    await asyncio.gather(*(client.create(INSTANCE_TYPES, manifest(name)) for name in TYPES))
    await eventually(active, when=set(TYPES).issubset, within=40)
    entrances = {names.entrance(name) for name in TYPES}
    await eventually(lambda: looking.names(LOCAL_QUEUES, "default"), when=entrances.issubset)
    assert set(TYPES) <= set(await looking.names(CLUSTER_QUEUES))
    now = await end_state(looking)
    assert difference(before, {name: now[name] for name in before}) == []

    await asyncio.gather(*(client.delete(INSTANCE_TYPES, name) for name in TYPES))
    await eventually(changes, when=lambda left: left == [], within=60)
