"""One whole development cluster for all tests of this folder: the four machines, the operator and the agents."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import pytest

from devcluster import state
from devcluster.cluster import Scope
from devcluster.handle import RunningCluster, running
from devcluster.kubectl import Kubectl
from devcluster.paths import MACHINES
from gpustack_op.runtime.client import Client


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[RunningCluster]:
    """Its logs stay only where a test has failed."""
    machines = sorted(MACHINES.glob("*.yaml"))
    with running(f"test-e2e-{os.getpid()}", scope=Scope.ALL, machines=machines, say=print) as started:
        yield started
    if not request.session.testsfailed:
        state.forget(started.layout)


@pytest.fixture
def kubectl(cluster: RunningCluster) -> Kubectl:
    return cluster.kubectl


@pytest.fixture
async def client(cluster: RunningCluster) -> AsyncIterator[Client]:
    """May do everything."""
    async with Client(cluster.administrator) as opened:
        yield opened
