"""A machine's inventory as a Node, a Lease and NFD's NodeFeature."""

from __future__ import annotations

import datetime

import pytest

from devcluster import node_objects
from devcluster.paths import MACHINES
from gpustack_op.agent import inventory

NOW = datetime.datetime(2026, 5, 4, 3, 2, 1, 7, tzinfo=datetime.UTC)
A10G = inventory.load(MACHINES / "node-a10g.yaml")
CPU_ONLY = inventory.load(MACHINES / "node-cpu.yaml")

BARE = """
node: bare
cpu: {cores: 2}
memory: 4Gi
"""


def test_a_node_offers_what_its_machine_has() -> None:
    node = node_objects.node(A10G, kubelet_version="v1.36.3", now=NOW)
    resources = {"cpu": "4", "memory": "64Gi", "ephemeral-storage": "500Gi", "pods": "110"}
    assert node["metadata"] == {
        "name": "node-a10g",
        "labels": {
            "kubernetes.io/hostname": "node-a10g",
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
        },
    }
    assert node["status"]["capacity"] == resources
    assert node["status"]["allocatable"] == resources
    assert node["status"]["nodeInfo"]["kernelVersion"] == "6.8.0-1021"
    assert node["status"]["addresses"][0] == {"type": "InternalIP", "address": "127.0.0.1"}


def test_a_node_is_born_ready() -> None:
    conditions = {each["type"]: each for each in node_objects.conditions(NOW)}
    assert {kind: each["status"] for kind, each in conditions.items()} == {
        "Ready": "True",
        "MemoryPressure": "False",
        "DiskPressure": "False",
        "PIDPressure": "False",
    }
    assert conditions["Ready"]["lastHeartbeatTime"] == "2026-05-04T03:02:01Z"


def test_leases_tell_microseconds() -> None:
    assert node_objects.renewal(NOW) == {"spec": {"renewTime": "2026-05-04T03:02:01.000007Z"}}


def test_a_nodes_objects_go_with_it() -> None:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "node-a10g", "uid": "u-1"}
    feature = node_objects.node_feature(A10G, "u-1", version="v0.19.0")
    assert node_objects.lease("node-a10g", "u-1")["metadata"]["ownerReferences"] == [owner]
    assert feature["metadata"]["ownerReferences"] == [owner]


def test_a_node_feature_is_what_nfds_worker_would_publish() -> None:
    feature = node_objects.node_feature(A10G, "u-1", version="v0.19.0")
    assert feature["metadata"]["name"] == "node-a10g"
    assert feature["metadata"]["namespace"] == "nfd"
    assert feature["metadata"]["labels"] == {"nfd.node.kubernetes.io/node-name": "node-a10g"}
    assert feature["spec"]["labels"] == {
        "feature.node.kubernetes.io/cpu-model.vendor_id": "AMD",
        "feature.node.kubernetes.io/cpu-model.family": "23",
        "feature.node.kubernetes.io/cpu-model.id": "49",
        "feature.node.kubernetes.io/kernel-version.full": "6.8.0-1021",
        "feature.node.kubernetes.io/kernel-version.major": "6",
        "feature.node.kubernetes.io/kernel-version.minor": "8",
        "feature.node.kubernetes.io/kernel-version.revision": "0",
        "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
        "feature.node.kubernetes.io/system-os_release.VERSION_ID": "24.04",
        "feature.node.kubernetes.io/system-os_release.VERSION_ID.major": "24",
        "feature.node.kubernetes.io/system-os_release.VERSION_ID.minor": "04",
        "feature.node.kubernetes.io/pci-10de.present": "true",
    }
    assert feature["spec"]["features"]["attributes"]["cpu.model"]["elements"] == {
        "vendor_id": "AMD",
        "family": "23",
        "id": "49",
    }
    assert feature["spec"]["features"]["instances"]["pci.device"]["elements"] == [
        {"attributes": {"class": "0302", "vendor": "10de"}}
    ]


def test_a_machine_without_cards_has_no_card_on_the_bus() -> None:
    assert node_objects.pci_vendors(CPU_ONLY) == []
    assert "feature.node.kubernetes.io/pci-10de.present" not in node_objects.feature_labels(CPU_ONLY)


def test_what_an_inventory_does_not_tell_is_not_published() -> None:
    assert node_objects.feature_labels(inventory.parse(BARE, file="bare.yaml")) == {}


@pytest.mark.parametrize(
    ("file", "cpu", "cores", "cards"),
    [
        pytest.param("node-cpu", "AMD EPYC 7R13 Processor", 16, [], id="no card"),
        pytest.param("node-a10g", "AMD EPYC 7R32", 4, [("NVIDIA A10G", 23028)], id="one A10G"),
        pytest.param("node-t4-a", "Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz", 4, [("Tesla T4", 15360)], id="T4"),
        pytest.param(
            "node-t4-b", "Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz", 48, [("Tesla T4", 15360)] * 4, id="four T4"
        ),
    ],
)
def test_the_shipped_machines_are_the_walkthroughs(
    file: str, cpu: str, cores: int, cards: list[tuple[str, int]]
) -> None:
    machine = inventory.load(MACHINES / f"{file}.yaml")
    assert machine.node == file
    assert (machine.cpu.name, machine.cpu.cores) == (cpu, cores)
    assert [(card.name, card.memory_mib) for card in machine.accelerators] == cards
    assert machine.broken == ()


def test_every_shipped_card_has_an_identity_of_its_own() -> None:
    machines = [inventory.load(file) for file in MACHINES.glob("*.yaml")]
    assert len({card.uuid for machine in machines for card in machine.accelerators}) == 6
