"""A Workload that asks for cards is charged in credits, and nothing admits it before the per-card check has spoken."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from devcluster.handle import RunningCluster
from devcluster.kubectl import Kubectl
from gpustack_op.runtime.client import Client
from tests.e2e.looking import NODES, Looking
from tests.e2e.pods import QueuedPod
from tests.e2e.waiting import eventually
from tests.e2e.walkthrough import Walkthrough

POOL = "gpustack--nvidia-tesla-t4-linux-amd64"
FLAVOR = "gpustack--intel-xeon-platinum-8259cl--nvidia-tesla-t4-linux-amd64-1d"
CARD = "nvidia.com/gpu"
NODE = "node-t4-a"


@pytest.fixture
async def advertised(kubectl: Kubectl, client: Client) -> AsyncIterator[None]:
    """One card of the node, as its device plugin would advertise it; Kueue places nothing on a node without."""
    looking = Looking(client)

    async def allocatable() -> str:
        return str((await looking.find(NODES, NODE))["status"]["allocatable"].get(CARD))

    async def advertise(amount: str) -> None:
        patch = f'{{"status":{{"capacity":{{"{CARD}":{amount}}}}}}}'
        await kubectl("patch", "node", NODE, "--subresource=status", "--type=merge", "-p", patch)

    await advertise('"1"')
    await eventually(allocatable, "1")
    yield
    await advertise("null")


@pytest.fixture
async def learner(walkthrough: Walkthrough, advertised: None, client: Client) -> AsyncIterator[QueuedPod]:
    """A Pod that asks for the node's card, while the node takes nothing."""
    learner = QueuedPod("learner", walkthrough.kubectl, Looking(client))
    await walkthrough.kubectl("cordon", NODE)
    try:
        await learner.create(pool=POOL, requests={CARD: "1"}, node=NODE)
        await eventually(learner.workload)
        yield learner
    finally:
        await learner.delete()
        await walkthrough.kubectl("uncordon", NODE)


@pytest.fixture
async def nobody_judges(learner: QueuedPod, cluster: RunningCluster) -> AsyncIterator[None]:
    """The operator is away, but its webhook has let the Pod in before."""
    await cluster.stop_part("operator")
    yield
    await cluster.restart("operator")


@pytest.mark.usefixtures("nobody_judges")
async def test_without_a_verdict_a_card_is_reserved_and_nothing_more(
    learner: QueuedPod, kubectl: Kubectl, cluster: RunningCluster
) -> None:
    await kubectl("uncordon", NODE)
    await eventually(learner.conditions, when=lambda conditions: conditions.get("QuotaReserved") == "True")

    status = (await learner.workload())["status"]
    [assigned] = status["admission"]["podSetAssignments"]
    assert assigned["resourceUsage"] == {"credits.gpustack.ai/nvidia": "1600k"}
    assert assigned["flavors"] == {"credits.gpustack.ai/nvidia": FLAVOR}
    [check] = status["admissionChecks"]
    assert (check["name"], check["state"]) == ("gpustack-node-devices", "Pending")

    with pytest.raises(AssertionError, match="not so within"):
        await eventually(learner.conditions, when=lambda conditions: conditions.get("Admitted") == "True", within=4)
    assert "kueue.x-k8s.io/admission" in await learner.gates()
    assert await learner.bound_to() == ""

    await cluster.restart("operator")
    await eventually(learner.bound_to, NODE)
    assert (await learner.conditions())["Admitted"] == "True"
