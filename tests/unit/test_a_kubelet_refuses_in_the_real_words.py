"""Predicates of a Pod's admission at its node."""

from __future__ import annotations

from typing import Any

import pytest

from devcluster.kubelet.pods import Pod, PodMeta
from devcluster.kubelet.predicates import Place, Refusal, refusal, requests
from gpustack_op.api.quantity import Quantity


def container(**requested: str) -> dict[str, Any]:
    return {
        "name": "main",
        "resources": {"requests": {name.replace("_", "/"): text for name, text in requested.items()}},
    }


def pod(*containers: dict[str, Any], **spec: Any) -> Pod:
    return Pod(metadata=PodMeta(name="one", uid="1"), spec={"containers": list(containers), **spec})


def place(**allocatable: str) -> Place:
    """`a_b` is `a/b`."""
    amounts = {name.replace("_", "/"): Quantity.parse(text) for name, text in {"pods": "110", **allocatable}.items()}
    return Place(name="node-a", labels={"size": "10", "zone": "x"}, allocatable=amounts)


@pytest.mark.parametrize(
    ("asked", "present", "offered", "reason", "figures"),
    [
        pytest.param(
            {"cpu": "2"},
            {"cpu": "1500m"},
            {"cpu": "3"},
            "OutOfcpu",
            "cpu, requested: 2000, used: 1500, capacity: 3000",
            id="CPU in thousandths",
        ),
        pytest.param(
            {"memory": "2Ki"},
            {},
            {"memory": "1Ki"},
            "OutOfmemory",
            "memory, requested: 2048, used: 0, capacity: 1024",
            id="memory in bytes",
        ),
        pytest.param(
            {"a.b_c": "2"},
            {"a.b_c": "1"},
            {"a.b_c": "2"},
            "OutOfa.b/c",
            "a.b/c, requested: 2, used: 1, capacity: 2",
            id="an extended resource",
        ),
        pytest.param(
            {},
            {},
            {"pods": "1"},
            "OutOfpods",
            "pods, requested: 1, used: 1, capacity: 1",
            id="one Pod too many",
        ),
        pytest.param(
            {"cpu": "2", "memory": "2Ki"},
            {},
            {"cpu": "1", "memory": "1Ki"},
            "OutOfcpu",
            "cpu, requested: 2000, used: 0, capacity: 1000",
            id="the first that lacks is told",
        ),
    ],
)
def test_what_a_node_lacks_is_told_in_figures(
    asked: dict[str, str], present: dict[str, str], offered: dict[str, str], reason: str, figures: str
) -> None:
    found = refusal(pod(container(**asked)), [pod(container(**present))], place(**offered))
    assert found == Refusal(reason, f"Node didn't have enough resource: {figures}")


def test_what_fits_exactly_is_let_in() -> None:
    others = [pod(container(cpu="1", a_b="1"))]
    assert refusal(pod(container(cpu="1", a_b="1")), others, place(cpu="2", a_b="2")) is None


def test_extended_resources_that_the_node_does_not_list_are_not_looked_at() -> None:
    assert refusal(pod(container(**{"a.b_c": "2"})), [], place()) is None


AFFINITY = Refusal("NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector")


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": affinity}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"nodeSelector": {"zone": "x"}}, id="selector"),
        pytest.param(required(expression("zone", "In", "x", "y")), id="In"),
        pytest.param(required(expression("zone", "NotIn", "y")), id="NotIn"),
        pytest.param(required(expression("zone", "Exists")), id="Exists"),
        pytest.param(required(expression("other", "DoesNotExist")), id="DoesNotExist"),
        pytest.param(required(expression("size", "Gt", "9")), id="Gt"),
        pytest.param(required(expression("size", "Lt", "11")), id="Lt"),
        pytest.param(required(expression("zone", "In", "y"), expression("zone", "In", "x")), id="one term is enough"),
        pytest.param(
            required({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]}), id="the name"
        ),
    ],
)
def test_a_node_that_was_asked_for_is_right(spec: dict[str, Any]) -> None:
    assert refusal(pod(container(), **spec), [], place()) is None


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"nodeSelector": {"zone": "y"}}, id="selector"),
        pytest.param(required(expression("zone", "In", "y")), id="In"),
        pytest.param(required(expression("zone", "NotIn", "x")), id="NotIn"),
        pytest.param(required(expression("other", "Exists")), id="Exists"),
        pytest.param(required(expression("zone", "DoesNotExist")), id="DoesNotExist"),
        pytest.param(required(expression("size", "Gt", "10")), id="Gt"),
        pytest.param(required(expression("zone", "Lt", "1")), id="no number"),
        pytest.param(required({}), id="an empty term takes nothing"),
        pytest.param(required(), id="no term takes nothing"),
    ],
)
def test_a_node_that_was_not_asked_for_is_refused(spec: dict[str, Any]) -> None:
    assert refusal(pod(container(), **spec), [], place()) == AFFINITY


@pytest.mark.parametrize(
    ("tolerations", "let_in"),
    [
        pytest.param([], False, id="not tolerated"),
        pytest.param([{"key": "gone", "operator": "Exists"}], True, id="by its key"),
        pytest.param([{"operator": "Exists"}], True, id="all are"),
        pytest.param([{"key": "gone", "value": "other"}], False, id="another value"),
        pytest.param([{"key": "gone", "value": "yes", "effect": "NoSchedule"}], False, id="another effect"),
    ],
)
def test_only_taints_that_evict_are_looked_at(tolerations: list[dict[str, str]], let_in: bool) -> None:
    tainted = Place(
        name="node-a",
        labels={},
        allocatable={"pods": Quantity.of(1)},
        taints=[
            {"key": "gone", "value": "yes", "effect": "NoExecute"},
            {"key": "full", "value": "yes", "effect": "NoSchedule"},
        ],
    )
    found = refusal(pod(container(), tolerations=tolerations), [], tainted)
    assert (found is None) is let_in


def test_init_containers_count_one_after_the_other_and_sidecars_beside_the_rest() -> None:
    asking = pod(
        container(cpu="1"),
        container(cpu="2"),
        initContainers=[
            {**container(cpu="1"), "restartPolicy": "Always"},
            container(cpu="4"),
            {**container(cpu="1"), "restartPolicy": "Always"},
        ],
    )
    assert requests(asking) == {"cpu": Quantity.of(5)}
