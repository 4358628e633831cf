"""What happens to a machine or to a card shows in its pools, and nowhere else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from devcluster.handle import RunningCluster
from devcluster.kubectl import Kubectl
from gpustack_op.runtime.client import Client
from tests.e2e.looking import DEVICES, SYSTEM, Looking
from tests.e2e.spare_machine import NODE, SpareMachine
from tests.e2e.waiting import eventually

WHOLE = "2/2 2/20 100/200 0/0 0/0"
NOTHING = "0/0 0/0 0/0 0/0 0/0"
TAINT = "dedicated=x:NoSchedule"


@pytest.fixture
def looking(client: Client) -> Looking:
    return Looking(client)


@pytest.fixture
async def spare(cluster: RunningCluster, looking: Looking, tmp_path: Path) -> AsyncIterator[SpareMachine]:
    machine = SpareMachine(cluster, looking, tmp_path / f"{NODE}.yaml")
    try:
        await machine.join()
        yield machine
        await machine.leave()
    finally:
        await machine.forget_pool()


@pytest.fixture
async def quick_recovery(kubectl: Kubectl) -> AsyncIterator[None]:
    """Cards are taken for well again after three seconds instead of sixty."""

    async def write(value: str) -> None:
        patch = f'{{"spec":{{"value":"{value}"}}}}'
        setting = ("setting", "accelerator-recovery-period")
        await kubectl("-n", SYSTEM, "patch", *setting, "--type=merge", "-p", patch)

    await write("3s")
    yield
    await write("60s")


async def test_a_machine_that_is_removed_takes_its_devices_and_flavors_with_it(spare: SpareMachine) -> None:
    assert await spare.traces() == [
        "gpustack--amd-epyc-7r32--nvidia-l4-linux-amd64-2d",
        "gpustack--amd-epyc-7r32-linux-amd64-8c",
        "node-spare",
        "gpustack-system/node-spare-gpustack-device-manager",
        "gpustack-system/node-spare-gpustack-worker",
        "nfd/node-spare",
    ]
    await spare.leave()
    await eventually(spare.free, NOTHING)


@pytest.mark.usefixtures("quick_recovery")
async def test_a_sick_card_is_not_offered_but_counted_and_comes_back_when_it_has_been_well_for_a_while(
    spare: SpareMachine,
) -> None:
    spare.fall_ill(1)
    await eventually(spare.free, "1/1 1/10 100/100 0/0 0/0", within=5)
    assert await spare.capacity() == "2 20 200"
    spare.fall_ill(1, healthy=True)
    await eventually(spare.free, WHOLE, within=15)


async def test_a_tainted_machine_leaves_its_pools_and_it_is_said_why(
    spare: SpareMachine, kubectl: Kubectl, looking: Looking
) -> None:
    why = f'Node "{NODE}" is in no pool because of its taint {TAINT}; remove the taint to add the node'

    async def left_out() -> str:
        annotations = (await looking.find(DEVICES, NODE))["metadata"].get("annotations", {})
        return str(annotations.get("gpustack.ai/left-out"))

    await kubectl("taint", "node", NODE, TAINT)
    await eventually(spare.free, NOTHING)
    await eventually(left_out, why)
    await eventually(lambda: looking.told("Node", NODE, reason="LeftOutOfPools"), when=lambda told: why in told)

    await kubectl("taint", "node", NODE, f"{TAINT}-")
    await eventually(spare.free, WHOLE)
    await eventually(left_out, "None")
