"""What people change, delete or put in the way by hand is put right, or said where they look."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from devcluster.kubectl import Kubectl
from gpustack_op.runtime.client import Client
from tests.e2e.looking import CLUSTER_QUEUES, DEVICES, INSTANCE_TYPES, NODE_FEATURES, NODES, SYSTEM, Looking
from tests.e2e.waiting import eventually
from tests.e2e.walkthrough import Walkthrough

POOL = "gpustack--nvidia-a10g-linux-amd64"
NODE = "node-a10g"
FEATURE = f"{NODE}-gpustack-worker"
MANAGED = "gpustack.ai/managed"
OCCUPIED = "occupied"


@pytest.fixture
def looking(client: Client) -> Looking:
    return Looking(client)


@pytest.fixture
async def occupied(kubectl: Kubectl) -> AsyncIterator[str]:
    """A type of whose name there is a ClusterQueue already, which is somebody else's."""
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": OCCUPIED}}
    await kubectl("create", "-f", "-", stdin=json.dumps({**queue, "spec": {"namespaceSelector": {}}}))
    type_ = {"apiVersion": "worker.gpustack.ai/v1", "kind": "InstanceType", "metadata": {"name": OCCUPIED}}
    spec = {"acceleratable": True, "acceleratorGroup": "nvidia-a10g", "os": "linux", "arch": "amd64"}
    await kubectl("create", "-f", "-", stdin=json.dumps({**type_, "spec": spec}))
    yield OCCUPIED
    await kubectl("delete", "instancetype", OCCUPIED, "--timeout=20s")
    await kubectl("get", "clusterqueue", OCCUPIED)
    await kubectl("delete", "clusterqueue", OCCUPIED, "--ignore-not-found", "--timeout=20s")


async def test_a_foreign_queue_of_a_types_name_is_never_adopted(occupied: str, looking: Looking) -> None:
    message = await eventually(lambda: looking.phase_message(occupied))
    assert message == (
        'ClusterQueue "occupied" was not made by this operator and is left alone; '
        "delete it, or create the InstanceType under another name"
    )
    queue = await looking.find(CLUSTER_QUEUES, occupied)
    assert "resourceGroups" not in queue["spec"]
    assert "labels" not in queue["metadata"]


async def test_a_queue_deleted_under_a_live_type_is_made_again(kubectl: Kubectl, looking: Looking) -> None:
    before = await looking.find(CLUSTER_QUEUES, POOL)
    await kubectl("delete", "clusterqueue", POOL, "--timeout=20s")

    async def same_again() -> bool:
        now = await looking.find(CLUSTER_QUEUES, POOL)
        return bool(now) and now["metadata"]["uid"] != before["metadata"]["uid"] and now["spec"] == before["spec"]

    async def phase() -> str:
        return str((await looking.find(INSTANCE_TYPES, POOL))["status"]["phase"])

    await eventually(same_again)
    await eventually(phase, "Active")


async def test_labels_of_devices_come_back(kubectl: Kubectl, looking: Looking) -> None:
    before = await looking.labels(DEVICES, NODE)
    await kubectl("label", "devices", NODE, f"{MANAGED}-", "general.feature.gpustack.ai/amd-epyc-7r32-")
    await eventually(lambda: looking.labels(DEVICES, NODE), before)


async def test_a_managed_label_edited_on_the_node_is_put_back_and_it_is_said_where_to_edit(
    kubectl: Kubectl, looking: Looking
) -> None:
    await kubectl("label", "node", NODE, f"{MANAGED}=false", "--overwrite")

    async def managed() -> str | None:
        return (await looking.labels(NODES, NODE)).get(MANAGED)

    await eventually(managed, "true", within=30)
    where = (
        f'Node "{NODE}": label {MANAGED}=false was set back to "true"; '
        f"edit spec.labels of NodeFeature {SYSTEM}/{FEATURE} instead"
    )
    await eventually(lambda: looking.told("Node", NODE, reason="ManagedLabelPutBack"), when=lambda told: where in told)


async def test_an_opt_out_outlives_the_deletion_of_its_node_feature(
    walkthrough: Walkthrough, kubectl: Kubectl, looking: Looking
) -> None:
    async def annotation() -> str | None:
        annotations = (await looking.find(NODES, NODE))["metadata"].get("annotations", {})
        return str(annotations.get(MANAGED))

    async def mark() -> str | None:
        feature = await looking.find(NODE_FEATURES, FEATURE, SYSTEM)
        return str(feature["spec"]["labels"].get(MANAGED)) if feature else None

    await walkthrough.manage(NODE, managed=False)
    await eventually(annotation, "false")
    await kubectl("-n", SYSTEM, "delete", "nodefeature", FEATURE)
    await eventually(mark, "false")
    await walkthrough.shows("without-a10g", "instancetype")
