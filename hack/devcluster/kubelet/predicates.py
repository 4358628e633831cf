"""Whether a node has what a Pod asks for, judged at the node.

Guarantees   Order, reasons and texts are the real kubelet's: resources, then labels, then taints; the first failure is
             told. Extended resources that the node does not list are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from devcluster.kubelet.pods import Json, Pod, amounts, is_sidecar
from devcluster.kubelet.registration import is_extended
from gpustack_op.api.quantity import Quantity

AFFINITY: Final = "NodeAffinity"
NATIVE: Final = ("cpu", "memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a Pod may not run here, for good."""

    reason: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A node as it offers itself. `taints` are those of its specification."""

    name: str
    labels: Mapping[str, str]
    allocatable: Mapping[str, Quantity]
    taints: Iterable[Json] = ()


def refusal(pod: Pod, others: Iterable[Pod], place: Place) -> Refusal | None:
    """`others` are the Pods that use the node already."""
    return next(_refusals(pod, others, place), None)


def _refusals(pod: Pod, others: Iterable[Pod], place: Place) -> Iterator[Refusal]:
    present = list(others)
    yield from _lacking(pod, present, place)
    if not selected(pod, place):
        text = "node(s) didn't match Pod's node affinity/selector"
        yield Refusal(AFFINITY, f"Predicate {AFFINITY} failed: {text}")
    if any(not _tolerated(taint, pod) for taint in place.taints if taint.get("effect") == "NoExecute"):
        text = "node(s) had taints that the pod didn't tolerate"
        yield Refusal("TaintToleration", f"Predicate TaintToleration failed: {text}")


def _lacking(pod: Pod, others: list[Pod], place: Place) -> Iterator[Refusal]:
    """The count of Pods comes first, then CPU, memory and storage, then what others have added."""
    limit = place.allocatable.get("pods", Quantity.of(0))
    if Quantity.of(len(others) + 1) > limit:
        yield _out_of("pods", 1, len(others), int(limit))
    used: dict[str, Quantity] = {}
    for other in others:
        for resource, amount in requests(other).items():
            used[resource] = used.get(resource, Quantity.of(0)) + amount
    wanted = requests(pod)
    for resource in sorted(wanted, key=_rank):
        if is_extended(resource) and resource not in place.allocatable:
            continue
        capacity = place.allocatable.get(resource, Quantity.of(0))
        present = used.get(resource, Quantity.of(0))
        if Quantity.of(0) < wanted[resource] and wanted[resource] > capacity - present:
            scale = 1000 if resource == "cpu" else 1
            yield _out_of(resource, *((amount * scale).ceil() for amount in (wanted[resource], present, capacity)))


def _out_of(resource: str, requested: int, used: int, capacity: int) -> Refusal:
    figures = f"requested: {requested}, used: {used}, capacity: {capacity}"
    return Refusal(f"OutOf{resource}", f"Node didn't have enough resource: {resource}, {figures}")


def _rank(resource: str) -> tuple[int, str]:
    return (NATIVE.index(resource) if resource in NATIVE else len(NATIVE)), resource


def requests(pod: Pod) -> dict[str, Quantity]:
    """What the scheduler counts: all long running containers at once, or the largest init container with the
    sidecars that were started before it, whichever is more."""
    together: dict[str, Quantity] = {}
    highest: dict[str, Quantity] = {}
    for container in pod.init_containers:
        asked = _requested(container)
        if is_sidecar(container):
            together = _sum(together, asked)
            highest = _highest(highest, together)
        else:
            highest = _highest(highest, _sum(together, asked))
    for container in pod.containers:
        together = _sum(together, _requested(container))
    return _sum(_highest(together, highest), amounts(pod.spec.get("overhead") or {}))


def selected(pod: Pod, place: Place) -> bool:
    """Whether the node selector and the required node affinity take the node."""
    selector = pod.spec.get("nodeSelector") or {}
    if any(place.labels.get(key) != value for key, value in selector.items()):
        return False
    affinity = ((pod.spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if affinity is None:
        return True
    return any(_term_matches(term, place) for term in affinity.get("nodeSelectorTerms") or [])


def _term_matches(term: Json, place: Place) -> bool:
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False
    return all(_matches(each, place.labels) for each in expressions) and all(
        _matches(each, {"metadata.name": place.name}) for each in fields
    )


def _matches(requirement: Json, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(requirement["key"]), requirement.get("values") or []
    match requirement.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case operator:
            return _compares(operator, value, values)


def _compares(operator: Any, value: str | None, values: list[str]) -> bool:
    try:
        present, bound = int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return present > bound if operator == "Gt" else present < bound


def _tolerated(taint: Json, pod: Pod) -> bool:
    return any(_tolerates(toleration, taint) for toleration in pod.spec.get("tolerations") or [])


def _tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("key") not in (None, "", taint.get("key")):
        return False
    return toleration.get("operator") == "Exists" or (toleration.get("value") or "") == (taint.get("value") or "")


def _requested(container: Json) -> dict[str, Quantity]:
    return amounts((container.get("resources") or {}).get("requests") or {})


def _sum(one: Mapping[str, Quantity], other: Mapping[str, Quantity]) -> dict[str, Quantity]:
    zero = Quantity.of(0)
    return {resource: one.get(resource, zero) + other.get(resource, zero) for resource in one.keys() | other.keys()}


def _highest(one: Mapping[str, Quantity], other: Mapping[str, Quantity]) -> dict[str, Quantity]:
    zero = Quantity.of(0)
    return {resource: max(one.get(resource, zero), other.get(resource, zero)) for resource in one.keys() | other.keys()}
