"""`gpustack-operator cleanup` takes the product out of a cluster, and only the product."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.cluster import Scope
from devcluster.handle import RunningCluster, running
from devcluster.paths import MACHINES
from gpustack_op.api.worker import INSTANCE_TYPES
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.errors import NotFound
from tests.e2e.waiting import eventually

OURS = (
    "instancetypes,instancetypeflavors,devices,settings.gpustack.ai,clusterqueues,localqueues,resourceflavors,topologies,"
    "admissionchecks,nodefeaturerules"
)
PROGRAM = Path(sys.executable).parent / "gpustack-operator"


@pytest.fixture
def doomed() -> Iterator[RunningCluster]:
    """A cluster of its own: nothing is left of the product afterwards."""
    machines = [MACHINES / "node-a10g.yaml"]
    with running(f"test-cleanup-{os.getpid()}", scope=Scope.ALL, machines=machines, say=print) as started:
        yield started


async def cleanup(cluster: RunningCluster) -> str:
    process = await asyncio.create_subprocess_exec(
        PROGRAM, "cleanup", "--kubeconfig", cluster.layout.kubeconfig, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


async def held_types(client: Client) -> int:
    """Types with the finalizer that a leftover would hang on."""
    return len([held for held in await client.list(INSTANCE_TYPES) if held.metadata.finalizers])


async def test_nothing_of_ours_is_left_and_nothing_else_is_touched(doomed: RunningCluster) -> None:
    async with Client(doomed.administrator) as client:
        await eventually(lambda: held_types(client), 2, within=60)
        await doomed.kubectl("create", "-f", "-", stdin=FOREIGN_QUEUE)
        for part in ("operator", "agent-node-a10g"):
            await doomed.stop_part(part)

        told = await cleanup(doomed)

        assert "InstanceType: removed gpustack--generic-linux-amd64, gpustack--nvidia-a10g-linux-amd64" in told
        left = await doomed.kubectl("get", OURS, "-A", "-o", "name")
        assert left.split() == ["clusterqueue.kueue.x-k8s.io/somebody-elses"]
        assert await doomed.kubectl("-n", "gpustack-system", "get", "secrets,nodefeatures", "-o", "name") == ""
        with pytest.raises(NotFound):
            await client.get(INSTANCE_TYPES, "gpustack--generic-linux-amd64")
        assert "fit.gpustack.ai/" not in await doomed.kubectl("get", "nodes", "-o", "yaml")
        assert await cleanup(doomed) == ""


FOREIGN_QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: somebody-elses}
spec: {namespaceSelector: {}}
"""
