"""What the operator publishes of a node's CPU, when, and what it leaves to people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from gpustack_op.api.core import Node, NodeStatus
from gpustack_op.api.nfd import NodeFeature
from gpustack_op.operator.node_feature import (
    FeatureInputs,
    cores,
    first_mark,
    node_of,
    published_key,
    reported,
    wanted_feature,
    wanted_labels,
)
from gpustack_op.runtime.controller import Request
from tests.builders import LINUX, agent_feature, bare_node, metadata, node_feature, worker_feature

EPYC = "general.feature.gpustack.ai/amd-epyc-7r13"
NUMBERED = "general.feature.gpustack.ai/amd-25-1"
AMD = "general.feature.gpustack.ai/amd"
CPU_ONLY = "feature.gpustack.ai/cpu-only"

SPOKEN = {AMD: "true", EPYC: "true", f"{EPYC}.count": "16", CPU_ONLY: "true"}
"""What is published of node-cpu once everybody has reported."""


def inputs(
    node: Node | None = None,
    *,
    agent: NodeFeature | None = None,
    present: NodeFeature | None = None,
    waited: bool = False,
) -> FeatureInputs:
    cpu, cpu_only = reported(agent)
    return FeatureInputs(
        node=node or bare_node("cpu"), present=present, cpu=cpu, cpu_only=cpu_only, manual=False, waited=waited
    )


def unlabelled(**more: str) -> Node:
    """node-cpu before Node Feature Discovery has seen it."""
    bare = bare_node("cpu")
    return msgspec.structs.replace(bare, metadata=metadata(bare.name, labels=LINUX | more))


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param(inputs(agent=agent_feature("cpu")), SPOKEN, id="both have spoken"),
        pytest.param(inputs(unlabelled()), {}, id="nobody has spoken"),
        pytest.param(inputs(), {}, id="the agent has not spoken"),
        pytest.param(inputs(unlabelled(), agent=agent_feature("cpu")), {}, id="discovery has not spoken"),
        pytest.param(
            inputs(waited=True),
            {AMD: "true", NUMBERED: "true", f"{NUMBERED}.count": "16"},
            id="without an agent, family and model make the key when the grace is over",
        ),
        pytest.param(inputs(unlabelled(), waited=True), {}, id="of a CPU nobody describes there is no key, ever"),
        pytest.param(
            inputs(unlabelled(**{"feature.node.kubernetes.io/cpu-model.vendor_id": "AMD"}), waited=True),
            {},
            id="a bare manufacturer is no key",
        ),
        pytest.param(
            inputs(present=worker_feature("cpu"), waited=True),
            SPOKEN,
            id="a key stays when the agent falls silent, and so does the mark of a node without cards",
        ),
        pytest.param(
            inputs(unlabelled(), present=worker_feature("cpu"), waited=True),
            SPOKEN,
            id="a key stays when everybody falls silent",
        ),
        pytest.param(
            inputs(unlabelled(), present=node_feature("node-cpu", {AMD: "true"}), waited=True),
            {},
            id="a bare manufacturer that an older operator published is no key to keep",
        ),
        pytest.param(
            inputs(present=node_feature("node-cpu", {AMD: "true", NUMBERED: "true"}), agent=agent_feature("cpu")),
            SPOKEN,
            id="a makeshift key gives way when the agent speaks at last",
        ),
        pytest.param(
            inputs(bare_node("cpu", cpu="3500m"), agent=agent_feature("cpu")),
            {**SPOKEN, f"{EPYC}.count": "4"},
            id="cores are counted up",
        ),
        pytest.param(
            inputs(bare_node("cpu", cpu="0"), agent=agent_feature("cpu")),
            {AMD: "true", EPYC: "true", CPU_ONLY: "true"},
            id="no cores, no count",
        ),
        pytest.param(
            inputs(bare_node("cpu", cpu="a dozen"), agent=agent_feature("cpu")),
            {AMD: "true", EPYC: "true", CPU_ONLY: "true"},
            id="a capacity that is no quantity is no count",
        ),
        pytest.param(
            inputs(
                bare_node("cpu", extra={"feature.node.kubernetes.io/cpu-model.vendor_id": "VendorUnknown"}),
                agent=node_feature("node-cpu", part="device-manager", cpu={"name": "Kunpeng 920"}),
            ),
            {
                "general.feature.gpustack.ai/generic": "true",
                "general.feature.gpustack.ai/generic-kunpeng-920": "true",
                "general.feature.gpustack.ai/generic-kunpeng-920.count": "16",
                CPU_ONLY: "true",
            },
            id="an unknown vendor counts as generic",
        ),
        pytest.param(
            inputs(
                bare_node("a10g", extra={"acceleratable.feature.gpustack.ai/nvidia-a10g": "true"}),
                agent=agent_feature("a10g"),
            ),
            {
                AMD: "true",
                "general.feature.gpustack.ai/amd-epyc-7r32": "true",
                "general.feature.gpustack.ai/amd-epyc-7r32.count": "4",
            },
            id="cards add nothing to what is said of the CPU",
        ),
    ],
)
def test_published_labels(facts: FeatureInputs, expected: Mapping[str, str]) -> None:
    assert wanted_labels(facts) == expected


def marked(*, label: str = "", annotation: str = "") -> Node:
    bare = bare_node("cpu", extra={"gpustack.ai/managed": label} if label else None)
    notes = {"gpustack.ai/managed": annotation} if annotation else None
    return msgspec.structs.replace(bare, metadata=msgspec.structs.replace(bare.metadata, annotations=notes))


@pytest.mark.parametrize(
    ("node", "manual", "expected"),
    [
        pytest.param(marked(), False, "true", id="a new node joins by itself"),
        pytest.param(marked(label="true"), False, "true", id="one that is managed stays managed"),
        pytest.param(marked(label="false"), False, "false", id="an opt-out on the node is echoed"),
        pytest.param(marked(annotation="false"), False, "false", id="an opt-out is remembered when its echo is gone"),
        pytest.param(
            marked(label="true", annotation="false"), False, "false", id="the memory of an opt-out beats a stale label"
        ),
        pytest.param(marked(), True, "", id="in manual mode nobody joins by himself"),
        pytest.param(marked(label="true"), True, "", id="in manual mode a person's label is left to count by itself"),
        pytest.param(marked(label="false"), True, "", id="in manual mode an opt-out is the person's label too"),
    ],
)
def test_first_mark(node: Node, manual: bool, expected: str) -> None:
    assert first_mark(node, manual=manual) == expected


@pytest.mark.parametrize(
    ("capacity", "expected"),
    [
        pytest.param({"cpu": "16"}, 16, id="whole"),
        pytest.param({"cpu": "15500m"}, 16, id="a fraction counts up"),
        pytest.param({}, 0, id="absent"),
        pytest.param(None, 0, id="no capacity yet"),
        pytest.param({"cpu": ""}, 0, id="empty"),
        pytest.param({"cpu": "sixteen"}, 0, id="no quantity"),
        pytest.param({"cpu": "1E"}, 10**18, id="absurd"),
    ],
)
def test_cores(capacity: dict[str, str] | None, expected: int) -> None:
    assert cores(Node(status=NodeStatus(capacity=capacity))) == expected


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param({AMD: "true", EPYC: "true", f"{EPYC}.count": "16"}, "amd-epyc-7r13", id="the one with an id"),
        pytest.param({AMD: "true"}, None, id="a manufacturer alone is none"),
        pytest.param({EPYC: "false"}, None, id="a mark that says false is none"),
        pytest.param({}, None, id="nothing"),
    ],
)
def test_published_key(labels: dict[str, str], expected: str | None) -> None:
    assert published_key(labels) == expected


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        pytest.param(None, (None, None), id="not yet"),
        pytest.param(node_feature("n", part="device-manager", cpu={"name": "X"}), ({"name": "X"}, True), id="no card"),
        pytest.param(
            node_feature("n", {"feature.gpustack.ai/acceleratable": "true"}, part="device-manager", cpu={}),
            ({}, False),
            id="cards",
        ),
        pytest.param(node_feature("n", part="device-manager"), (None, True), id="a report without the CPU"),
    ],
)
def test_what_an_agent_has_said(agent: NodeFeature | None, expected: Any) -> None:
    assert reported(agent) == expected


def test_the_node_feature_goes_with_its_node_and_says_whose_it_is() -> None:
    body = wanted_feature(inputs(agent=agent_feature("cpu")), "gpustack-system")
    assert body["metadata"] == {
        "name": "node-cpu-gpustack-worker",
        "namespace": "gpustack-system",
        "labels": {
            "nfd.node.kubernetes.io/node-name": "node-cpu",
            "app.kubernetes.io/part-of": "gpustack-operator-worker",
        },
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": "node-cpu", "uid": "uid-of-node-cpu", "controller": True}
        ],
    }


def test_a_node_feature_is_about_the_node_that_its_label_names() -> None:
    assert node_of(agent_feature("t4-a")) == [Request("node-t4-a")]
    assert node_of(NodeFeature()) == []
