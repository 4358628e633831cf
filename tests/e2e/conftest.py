"""One whole development cluster for all tests of this folder: the four machines, the operator and the agents.

It has settled before the first test sees it. A test leaves it as it was: the walkthrough's initial pools, all parts up.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from devcluster.cluster import Scope
from devcluster.handle import RunningCluster, running
from devcluster.kubectl import Kubectl
from devcluster.paths import MACHINES
from devcluster.settle import settled
from gpustack_op.agent import inventory
from gpustack_op.runtime.client import Client
from tests.e2e.walkthrough import Walkthrough


@pytest.fixture(scope="session")
def cluster() -> Iterator[RunningCluster]:
    machines = sorted(MACHINES.glob("*.yaml"))
    with running(f"test-e2e-{os.getpid()}", scope=Scope.ALL, machines=machines, say=print) as started:
        asyncio.run(settled(started, [inventory.load(machine) for machine in machines]))
        yield started


@pytest.fixture
def kubectl(cluster: RunningCluster) -> Kubectl:
    return cluster.kubectl


@pytest.fixture
async def client(cluster: RunningCluster) -> AsyncIterator[Client]:
    """May do everything."""
    async with Client(cluster.administrator) as opened:
        yield opened


@pytest.fixture
async def walkthrough(kubectl: Kubectl) -> AsyncIterator[Walkthrough]:
    """At its beginning, and brought back to it afterwards."""
    person = Walkthrough(kubectl)
    try:
        yield person
    finally:
        await person.restore()


@pytest.fixture
def tell(pytestconfig: pytest.Config, capfd: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Says something that a person should read also when the test passes."""
    reporter = pytestconfig.pluginmanager.get_plugin("terminalreporter")
    assert reporter is not None

    def write(text: str) -> None:
        with capfd.disabled():
            reporter.ensure_newline()
            reporter.write_line(text)

    return write
