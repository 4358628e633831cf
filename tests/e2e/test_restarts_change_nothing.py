"""Who watches the pools does not notice that a part of the cluster was killed and started again."""

from __future__ import annotations

import pytest

from devcluster.errors import ClusterError
from devcluster.handle import RunningCluster
from gpustack_op.runtime.client import Client
from tests.e2e.forms import seconds
from tests.e2e.steadiness import Steadiness

STARTS = 3
"""How often a part is started until it stays: the API server ends itself when its roles take it longer than 30 s."""


async def kill_and_restart(cluster: RunningCluster, part: str) -> None:
    """Starts it as often as it takes, as a kubelet would."""
    await cluster.kill(part)
    for attempt in range(1, STARTS + 1):
        try:
            await cluster.restart(part)
            return
        except ClusterError:
            if attempt == STARTS:
                raise


@pytest.mark.parametrize("part", ["nfd-master", "kueue", "kube-apiserver", "operator"])
async def test_a_killed_and_restarted_part_changes_nothing(part: str, cluster: RunningCluster, client: Client) -> None:
    async with Steadiness(client).watching() as seen:
        await kill_and_restart(cluster, part)
        await seen.change(within=seconds(short=10, full=60))
    assert seen.changes == []
