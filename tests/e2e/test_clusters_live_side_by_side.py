"""Two whole development clusters on one machine: what befalls one of them does not touch the other."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from devcluster import daemon, state
from devcluster.cluster import Scope
from devcluster.handle import RunningCluster, running
from devcluster.paths import MACHINES
from devcluster.process import Identity
from tests.controlplane.processes import in_group, of_cluster


@pytest.fixture
def other() -> Iterator[RunningCluster]:
    """A second cluster, which the test may end before its time."""
    machines = [MACHINES / "node-t4-a.yaml"]
    with running(f"test-other-{os.getpid()}", scope=Scope.ALL, machines=machines, say=print) as started:
        yield started


def groups(cluster: RunningCluster) -> dict[str, int]:
    """The process groups of all parts; each part leads one."""
    identities = {file.name: Identity.read(file) for file in cluster.layout.pids.iterdir()}
    return {part: identity.pid for part, identity in identities.items() if identity is not None}


async def test_one_that_lost_a_part_leaves_nothing_and_the_other_answers(
    cluster: RunningCluster, other: RunningCluster
) -> None:
    ours, theirs = groups(cluster), groups(other)
    assert {"etcd", "kube-apiserver", "kueue", "nfd-master", "operator", "agent-node-t4-a"} <= theirs.keys()

    await other.kill("kueue")
    assert in_group(theirs["kueue"]) == []
    await asyncio.to_thread(daemon.down, other.layout, print)

    assert [part for part, group in theirs.items() if in_group(group)] == []
    assert of_cluster(other.layout) == []
    assert not state.is_up(other.layout)
    assert groups(cluster) == ours
    assert [part for part, group in ours.items() if not in_group(group)] == []
    assert "node-a10g" in await cluster.kubectl("get", "nodes")
