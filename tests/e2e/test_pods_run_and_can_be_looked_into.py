"""A plain Pod on the development cluster, with kubectl."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from devcluster.errors import KubectlError
from devcluster.handle import RunningCluster
from devcluster.kubectl import Kubectl
from tests.e2e.waiting import eventually

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "plain", "namespace": "default"},
    "spec": {
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {
                "name": "main",
                "image": "ubuntu",
                "command": ["sh", "-c", "echo hello $(WHO); exec sleep 600"],
                "env": [{"name": "WHO", "value": "world"}],
                "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}},
            }
        ],
    },
}


@pytest.fixture
async def node(kubectl: Kubectl) -> AsyncIterator[str]:
    """Where the Pod runs."""
    await kubectl("create", "-f", "-", stdin=json.dumps(POD))
    await kubectl("wait", "pod", "plain", "--for=condition=Ready", "--timeout=30s")
    yield await kubectl("get", "pod", "plain", "-o", "jsonpath={.spec.nodeName}")
    await kubectl("delete", "pod", "plain", "--ignore-not-found")


@pytest.mark.usefixtures("node")
async def test_what_a_pod_prints_can_be_read(kubectl: Kubectl) -> None:
    await eventually(lambda: kubectl("logs", "plain"), "hello world\n")


@pytest.mark.usefixtures("node")
async def test_a_command_in_a_pod_sees_its_environment_and_nothing_of_ours(kubectl: Kubectl) -> None:
    seen = await kubectl("exec", "plain", "--", "env")
    assert sorted(line.partition("=")[0] for line in seen.splitlines()) == ["HOME", "HOSTNAME", "PATH", "WHO"]
    assert "WHO=world" in seen.splitlines()


@pytest.mark.usefixtures("node")
async def test_a_command_in_a_pod_is_fed_and_ends_as_it_does(kubectl: Kubectl) -> None:
    assert await kubectl("exec", "-i", "plain", "--", "cat", stdin="fed") == "fed"
    with pytest.raises(KubectlError, match="exit code 7"):
        await kubectl("exec", "plain", "--", "sh", "-c", "exit 7")


async def test_a_pod_outlives_its_kubelet(cluster: RunningCluster, kubectl: Kubectl, node: str) -> None:
    await cluster.restart_kubelet(node, meanwhile=lambda folders: folders.lose_checkpoint())
    await eventually(lambda: kubectl("logs", "plain"), "hello world\n")
    restarts = "jsonpath={.status.phase} {.status.containerStatuses[0].restartCount}"
    assert await kubectl("get", "pod", "plain", "-o", restarts) == "Running 0"
