"""A node that is opted out takes nothing new, and who is on it stays."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from devcluster.kubectl import Kubectl
from gpustack_op.runtime.client import Client
from tests.e2e.looking import CLUSTER_QUEUES, INSTANCE_TYPES, RESOURCE_FLAVORS, Looking
from tests.e2e.pods import QueuedPod
from tests.e2e.waiting import eventually
from tests.e2e.walkthrough import Walkthrough

POOL = "gpustack--generic-linux-amd64"
FLAVOR = "gpustack--amd-epyc-7r32-linux-amd64-4c"


@pytest.fixture
async def tenant(kubectl: Kubectl, client: Client) -> AsyncIterator[QueuedPod]:
    """A Pod that holds a CPU of node-a10g."""
    tenant = QueuedPod("tenant", kubectl, Looking(client))
    await tenant.create(pool=POOL, requests={"cpu": "1"}, node="node-a10g")
    await eventually(tenant.bound_to, "node-a10g")
    yield tenant
    await tenant.delete()


async def test_who_is_on_the_node_stays_and_its_flavor_with_it(
    walkthrough: Walkthrough, tenant: QueuedPod, client: Client
) -> None:
    looking = Looking(client)

    async def cpus() -> str:
        """May be had at once / free / there are."""
        status = (await looking.find(INSTANCE_TYPES, POOL))["status"]["cpu"]
        return "/".join(status[field] for field in ("onceMaxRequest", "remaining", "capacity"))

    async def flavor_is_there() -> bool:
        return bool(await looking.find(RESOURCE_FLAVORS, FLAVOR))

    async def listed() -> list[str]:
        groups = (await looking.find(CLUSTER_QUEUES, POOL))["spec"]["resourceGroups"]
        return [flavor["name"] for group in groups for flavor in group["flavors"]]

    await eventually(cpus, "48/70/72")  # a core that is requested stands for 1.25 cores that may be used

    await walkthrough.manage("node-a10g", managed=False)
    await eventually(cpus, "48/68/68")
    await eventually(listed, when=lambda flavors: FLAVOR not in flavors)
    assert await tenant.bound_to() == "node-a10g"
    assert {"Admitted": "True"}.items() <= (await tenant.conditions()).items()
    assert (await tenant.conditions()).get("Evicted") != "True"
    assert await flavor_is_there()

    await tenant.delete()
    await eventually(flavor_is_there, when=lambda there: not there)

    await walkthrough.manage("node-a10g", managed=True)
    await walkthrough.shows("initial", "instancetype", "resourceflavor")
