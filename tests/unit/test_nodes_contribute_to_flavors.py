"""What each node contributes to, and the ResourceFlavor that comes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpustack_op.api.core import Taint
from gpustack_op.scheduling.flavors import NodeFacts, contributions, contributors, flavor, left_out_because
from tests.builders import LINUX, MACHINES, node_facts, taint

A10G = "gpustack--amd-epyc-7r32--nvidia-a10g-linux-amd64-1d"
A10G_CPU = "gpustack--amd-epyc-7r32-linux-amd64-4c"
T4 = "gpustack--intel-xeon-platinum-8259cl--nvidia-tesla-t4-linux-amd64"
XEON = "gpustack--intel-xeon-platinum-8259cl-linux-amd64"
GENERAL = "general.feature.gpustack.ai"
ACCELERATOR = "acceleratable.feature.gpustack.ai"


def names_of(node: NodeFacts, *, mixed: bool = True) -> list[str]:
    return sorted(part.flavor for part in contributions(node, mixed=mixed))


def test_the_four_machines_make_seven_flavors() -> None:
    assert set(contributors(node_facts(short) for short in MACHINES)) == {
        "gpustack--amd-epyc-7r13-linux-amd64-16c",
        A10G_CPU,
        A10G,
        f"{XEON}-4c",
        f"{XEON}-48c",
        f"{T4}-1d",
        f"{T4}-4d",
    }


def test_a_node_known_by_family_and_model_contributes() -> None:
    node = NodeFacts(
        "node",
        LINUX
        | {
            "gpustack.ai/managed": "true",
            f"{GENERAL}/amd": "true",
            f"{GENERAL}/amd-25-1": "true",
            f"{GENERAL}/amd-25-1.count": "8",
        },
    )
    (part,) = contributions(node)
    notes = flavor([part])["metadata"]["annotations"]
    assert part.flavor == "gpustack--amd-25-1-linux-amd64-8c"
    assert (notes["note.gpustack.ai/product"], notes["note.gpustack.ai/family"]) == ("", "")


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        pytest.param(NodeFacts("node", {}), [], id="no labels"),
        pytest.param(NodeFacts("node", LINUX | {"gpustack.ai/managed": "true"}), [], id="no CPU key"),
        pytest.param(node_facts("a10g", managed="false"), [], id="opted out"),
        pytest.param(node_facts("a10g", managed=""), [], id="never managed"),
        pytest.param(node_facts("cpu", extra={f"{GENERAL}/amd-epyc-7r13.count": "0"}), [], id="no cores"),
        pytest.param(
            node_facts("cpu", extra={f"{GENERAL}/amd-epyc-7r13.count": "many"}), [], id="a count that is no number"
        ),
        pytest.param(node_facts("cpu", extra={f"{GENERAL}/amd-epyc-7r13.count": "016"}), [], id="a count padded"),
        pytest.param(
            node_facts("cpu", extra={f"{GENERAL}/amd-epyc-7r13.count": "9" * 15}), [], id="a count beyond reason"
        ),
        pytest.param(
            node_facts("cpu", extra={"kubernetes.io/arch": "AMD_64"}), [], id="an architecture that is no name"
        ),
        pytest.param(node_facts("a10g", extra={f"{GENERAL}/amd-epyc-7r32.count": "0"}), [A10G], id="cards alone"),
        pytest.param(
            node_facts("a10g", extra={f"{ACCELERATOR}/nvidia-a10g.count": "-1"}), [A10G_CPU], id="cores alone"
        ),
    ],
)
def test_a_node_contributes_only_what_it_can_back(node: NodeFacts, expected: list[str]) -> None:
    assert names_of(node) == expected


def test_an_accelerated_flavor_is_whole() -> None:
    (part,) = [part for part in contributions(node_facts("a10g")) if part.accelerator_key]
    body = flavor([part])
    notes = body["metadata"].pop("annotations")
    assert json.loads(notes.pop("note.gpustack.ai/cpuDetail")) == {
        "manufacturer": "amd",
        "product": "AMD EPYC 7R32",
        "family": "23",
        "physicalCores": "2",
        "threadsPerPhysicalCore": "2",
    }
    assert notes == {
        "note.gpustack.ai/acceleratable": "true",
        "note.gpustack.ai/generalGroup": "amd-epyc-7r32",
        "note.gpustack.ai/acceleratorGroup": "nvidia-a10g",
        "note.gpustack.ai/manufacturer": "nvidia",
        "note.gpustack.ai/product": "NVIDIA-A10G",
        "note.gpustack.ai/family": "Ampere",
        "note.gpustack.ai/memory": "24Gi",
        "note.gpustack.ai/cores": "10240",
    }
    assert body == {
        "metadata": {
            "name": A10G,
            "labels": {
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "feature.gpustack.ai/acceleratable": "true",
                f"{GENERAL}/amd-epyc-7r32": "true",
                f"{ACCELERATOR}/nvidia-a10g": "true",
                f"{ACCELERATOR}/nvidia-a10g.count": "1",
                f"{ACCELERATOR}/nvidia-a10g.capacity": "1",
                "resource.gpustack.ai/type": "nodes",
            },
        },
        "spec": {
            "nodeLabels": {
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "gpustack.ai/managed": "true",
                f"{GENERAL}/amd-epyc-7r32": "true",
                f"{ACCELERATOR}/nvidia-a10g": "true",
                f"{ACCELERATOR}/nvidia-a10g.count": "1",
            },
            "topologyName": "gpustack",
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        },
    }


def test_a_cpu_flavor_is_whole() -> None:
    body = flavor(contributions(node_facts("cpu")))
    notes = body["metadata"].pop("annotations")
    assert json.loads(notes.pop("note.gpustack.ai/cpuDetail")) == {
        "physicalCores": "8",
        "threadsPerPhysicalCore": "2",
    }
    assert notes == {
        "note.gpustack.ai/acceleratable": "false",
        "note.gpustack.ai/generalGroup": "amd-epyc-7r13",
        "note.gpustack.ai/acceleratorGroup": "",
        "note.gpustack.ai/manufacturer": "amd",
        "note.gpustack.ai/product": "AMD EPYC 7R13 Processor",
        "note.gpustack.ai/family": "25",
        "note.gpustack.ai/memory": "",
        "note.gpustack.ai/cores": "",
    }
    assert body == {
        "metadata": {
            "name": "gpustack--amd-epyc-7r13-linux-amd64-16c",
            "labels": {
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "feature.gpustack.ai/acceleratable": "false",
                f"{GENERAL}/amd-epyc-7r13": "true",
                f"{GENERAL}/amd-epyc-7r13.count": "16",
                f"{GENERAL}/amd-epyc-7r13.capacity": "16",
                "resource.gpustack.ai/type": "nodes",
            },
        },
        "spec": {
            "nodeLabels": {
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "gpustack.ai/managed": "true",
                f"{GENERAL}/amd-epyc-7r13": "true",
                f"{GENERAL}/amd-epyc-7r13.count": "16",
            },
            "topologyName": "gpustack",
        },
    }


def test_equal_nodes_share_a_flavor_of_their_joint_capacity() -> None:
    parts = contributors([node_facts("a10g", name="one"), node_facts("a10g", name="two")])[A10G]
    labels = flavor(parts)["metadata"]["labels"]
    assert labels[f"{ACCELERATOR}/nvidia-a10g.count"] == "1"
    assert labels[f"{ACCELERATOR}/nvidia-a10g.capacity"] == "2"


def test_the_hardware_is_told_by_a_node_that_knows_it() -> None:
    silent = NodeFacts("a-silent-node", node_facts("cpu").labels)
    (parts,) = contributors([silent, node_facts("cpu")]).values()
    assert flavor(parts)["metadata"]["annotations"]["note.gpustack.ai/product"] == "AMD EPYC 7R13 Processor"


def test_the_order_of_the_nodes_does_not_matter() -> None:
    nodes = [node_facts("a10g", name="one"), node_facts("a10g", name="two")]
    assert contributors(nodes) == contributors(reversed(nodes))


def test_a_node_with_an_old_cpu_key_beside_the_new_one_has_the_one_its_facts_give() -> None:
    old = {f"{GENERAL}/amd-25-1": "true", f"{GENERAL}/amd-25-1.count": "16"}
    node = node_facts("cpu", extra=old)
    assert names_of(node) == ["gpustack--amd-epyc-7r13-linux-amd64-16c"]


@pytest.mark.parametrize(
    ("short", "expected"),
    [
        ("cpu", ["gpustack--amd-epyc-7r13-linux-amd64-16c"]),
        ("a10g", [A10G]),
        ("t4-a", [f"{T4}-1d"]),
        ("t4-b", [f"{T4}-4d"]),
    ],
)
def test_without_mixing_nodes_with_cards_leave_the_cpu_pools(short: str, expected: list[str]) -> None:
    assert names_of(node_facts(short), mixed=False) == expected


def test_without_mixing_a_cpu_flavor_pins_nodes_without_cards() -> None:
    (part,) = contributions(node_facts("cpu"), mixed=False)
    assert flavor([part])["spec"]["nodeLabels"]["feature.gpustack.ai/cpu-only"] == "true"


@pytest.mark.parametrize(
    ("node_taint", "expected"),
    [
        pytest.param(taint("nvidia.com/gpu"), [A10G], id="the customary taint keeps the node for its cards"),
        pytest.param(taint("amd.com/gpu"), [], id="another manufacturer's taint"),
        pytest.param(taint("dedicated", value="ml"), [], id="a taint of somebody's own"),
        pytest.param(taint("dedicated", "NoExecute"), [], id="no execution"),
        pytest.param(taint("dedicated", "PreferNoSchedule"), [A10G, A10G_CPU], id="a mere preference"),
        pytest.param(taint("node.kubernetes.io/unschedulable"), [A10G, A10G_CPU], id="a taint of Kubernetes' own"),
        pytest.param(taint("node-role.kubernetes.io/control-plane"), [], id="a control plane"),
    ],
)
def test_taints_are_respected(node_taint: Taint, expected: list[str]) -> None:
    assert names_of(node_facts("a10g", taints=[node_taint])) == expected


@pytest.mark.parametrize(
    ("short", "facts", "expected"),
    [
        pytest.param("a10g", {}, "", id="a node in its pools"),
        pytest.param("a10g", {"managed": "false"}, "", id="opted out on purpose"),
        pytest.param("a10g", {"taints": [taint("nvidia.com/gpu")]}, "", id="a node for its cards"),
        pytest.param(
            "a10g",
            {"taints": [taint("dedicated", value="ml")]},
            'Node "node-a10g" is in no pool because of its taint dedicated=ml:NoSchedule; '
            "remove the taint to add the node",
            id="tainted",
        ),
        pytest.param(
            "a10g",
            {"extra": {"kubernetes.io/arch": "AMD_64"}},
            "Node \"node-a10g\" is in no pool because of its labels kubernetes.io/os='linux', "
            "kubernetes.io/arch='AMD_64'; set them as the kubelet does",
            id="an architecture that is no name",
        ),
        pytest.param(
            "cpu",
            {"extra": {"general.feature.gpustack.ai/amd-epyc-7r13.count": "1000000000000000000"}},
            'Node "node-cpu" is in no pool because its capacity of 1000000000000000000 cores is no believable number; '
            "it must be at most 2147483647",
            id="more cores than can be",
        ),
    ],
)
def test_a_node_that_is_left_out_says_why(short: str, facts: dict[str, Any], expected: str) -> None:
    assert left_out_because(node_facts(short, **facts)) == expected
