"""A control plane for the operator's controllers alone: they would act on the objects of other tests."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import pytest

from devcluster import state
from devcluster.cluster import Scope
from devcluster.handle import RunningCluster, running
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.config import ClientConfig
from tests.controlplane.reconcilers.stage import wipe


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> Iterator[RunningCluster]:
    """Its logs stay only where a test has failed."""
    with running(f"test-reconcilers-{os.getpid()}", scope=Scope.CONTROL_PLANE, say=print) as cluster:
        yield cluster
    if not request.session.testsfailed:
        state.forget(cluster.layout)


@pytest.fixture
async def config(administrator: ClientConfig) -> AsyncIterator[ClientConfig]:
    """How to reach a cluster in which nothing is left of the test before."""
    yield administrator
    async with Client(administrator) as client:
        await wipe(client)
