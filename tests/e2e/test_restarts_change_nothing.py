"""Who watches the pools does not notice that a part of the cluster was killed and started again."""

from __future__ import annotations

import pytest

from devcluster.handle import RunningCluster
from gpustack_op.runtime.client import Client
from tests.e2e.forms import seconds
from tests.e2e.steadiness import Steadiness


@pytest.mark.parametrize("part", ["nfd-master", "kueue", "kube-apiserver", "operator"])
async def test_a_killed_and_restarted_part_changes_nothing(part: str, cluster: RunningCluster, client: Client) -> None:
    async with Steadiness(client).watching() as seen:
        await cluster.kill(part)
        await cluster.restart(part)
        await seen.change(within=seconds(short=10, full=60))
    assert seen.changes == []
