"""One real control plane for all tests of this folder: etcd and kube-apiserver with every CRD and our roles.

Nothing runs in it that would act on an object: no controllers, no Kueue, no NFD, no nodes. Tests share it, so each
works in a namespace of its own, or names its cluster-wide objects after itself.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Iterator

import pytest

from devcluster import state
from devcluster.cluster import Scope
from devcluster.handle import RunningCluster, running
from devcluster.kubectl import Kubectl
from gpustack_op.api.core import NAMESPACES
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.config import ClientConfig


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> Iterator[RunningCluster]:
    """Its logs stay only where a test has failed."""
    with running(f"test-control-plane-{os.getpid()}", scope=Scope.CONTROL_PLANE, say=print) as cluster:
        yield cluster
    if not request.session.testsfailed:
        state.forget(cluster.layout)


@pytest.fixture(scope="module")
def administrator(control_plane: RunningCluster) -> ClientConfig:
    """Of the control plane that the test asks for: a folder below may have one of its own."""
    return control_plane.administrator


@pytest.fixture
def kubectl(control_plane: RunningCluster) -> Kubectl:
    return control_plane.kubectl


@pytest.fixture
async def client(administrator: ClientConfig) -> AsyncIterator[Client]:
    """May do everything."""
    async with Client(administrator) as opened:
        yield opened


@pytest.fixture
async def namespace(client: Client) -> str:
    """A namespace that no other test uses. It stays: nobody here empties namespaces."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    return name
