"""Cards that are given away and not yet taken: the difference between what was said Ready and what the ledger shows.

Guarantees   A Pod counts once: as long as it is not on its node, through its Workload; from then on by itself, for
             those of its containers that are not yet in its record. A Pod that Kueue never saw counts the same way.
Assumptions  The Pods are one list of one node. A Pod that ended well leaves its place for good; one that failed may be
             made again in it, so that its Workload still has the place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpustack_op.api.core import Pod
from gpustack_op.api.kueue import PodSetAssignment, ResourceFlavor, Workload
from gpustack_op.api.worker import DeviceGroup
from gpustack_op.scheduling import labels
from gpustack_op.scheduling.card_budget import Piece, pieces_of
from gpustack_op.scheduling.claims import FINISHED
from gpustack_op.scheduling.manufacturers import MANUFACTURERS, Manufacturers
from gpustack_op.scheduling.records import NO_RECORD, RecordError, record_of
from gpustack_op.scheduling.requests import (
    asks_for_cards,
    assignments_of,
    containers_of,
    flavor_of,
    pod_demands,
    pod_set_demands,
    pods_by_node,
)

NODE_CHECK = "gpustack-node-devices"
"""The AdmissionCheck that judges by cards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """So many Pods that will take these pieces."""

    pods: int
    pieces: tuple[tuple[Piece, int], ...]


def is_true(workload: Workload, condition: str) -> bool:
    return any(c.type == condition and c.status == "True" for c in workload.status.conditions or ())


def holds_cards(workload: Workload, check: str = NODE_CHECK) -> bool:
    """Whether a Workload has a place that it may take at any moment."""
    if not is_true(workload, "QuotaReserved") or not workload.spec.active:
        return False
    if is_true(workload, "Evicted") or is_true(workload, "Finished"):
        return False
    ready = any(c.name == check and c.state == "Ready" for c in workload.status.admission_checks or ())
    return ready or is_true(workload, "Admitted")


def flavor_key(flavor: ResourceFlavor | None, manufacturers: Manufacturers = MANUFACTURERS) -> str:
    """The accelerator key a flavor is about; empty when it is about none or several."""
    keys = labels.accelerator_keys((flavor.spec.node_labels or {}) if flavor else {}, manufacturers)
    return keys[0] if len(keys) == 1 else ""


def promises(
    *,
    hostname: str,
    pods: Sequence[Pod],
    groups: Iterable[DeviceGroup],
    others: Iterable[Workload],
    flavors: Mapping[str, ResourceFlavor],
    manufacturers: Manufacturers = MANUFACTURERS,
) -> list[Promise]:
    """What is promised on one node, in the order it is thought to be taken: Pods that are there, then those to come."""
    here = [
        (workload, assignment, count)
        for workload in sorted(others, key=lambda workload: (workload.namespace, workload.name))
        for assignment in assignments_of(workload).values()
        if (count := pods_by_node(assignment).get(hostname, 0)) > 0
    ]
    keys = {
        (w.namespace, w.name, a.name): flavor_key(flavors.get(flavor_of(a, manufacturers)), manufacturers)
        for w, a, _ in here
    }
    smallest = min((group.memory for group in groups), default=0)
    arrived = [_of_pod(pod, keys, smallest, manufacturers) for pod in sorted(pods, key=_age)]
    coming = [
        _of_workload(w, a, count - _arrivals(w, a, pods), keys[w.namespace, w.name, a.name], manufacturers)
        for w, a, count in here
    ]
    return [promise for promise in (*arrived, *coming) if promise and promise.pieces]


def _of_pod(
    pod: Pod, keys: Mapping[tuple[str, str, str], str], card_mebibytes: int, manufacturers: Manufacturers
) -> Promise | None:
    """What a Pod on the node has yet to be given."""
    if pod.status.phase in FINISHED:
        return None
    try:
        record = record_of(pod)
    except RecordError:
        record = NO_RECORD
    waiting = [c for c in containers_of(pod.spec) if c.name not in record and asks_for_cards(c, manufacturers)]
    key = keys.get((pod.namespace, pod.annotations.get(labels.KUEUE_WORKLOAD, ""), _pod_set(pod)), "")
    demands = pod_demands(waiting, card_mebibytes=card_mebibytes, manufacturers=manufacturers)
    return Promise(pods=1, pieces=tuple(piece for demand in demands for piece in pieces_of(demand, key)))


def _of_workload(
    workload: Workload, assignment: PodSetAssignment, pods: int, key: str, manufacturers: Manufacturers
) -> Promise | None:
    if pods <= 0:
        return None
    pod_sets = [p for p in workload.spec.pod_sets or () if p.name == assignment.name]
    demands = [d for p in pod_sets for d in pod_set_demands(p, pods=pods, manufacturers=manufacturers)]
    return Promise(pods=pods, pieces=tuple(piece for demand in demands for piece in pieces_of(demand, key)))


def _arrivals(workload: Workload, assignment: PodSetAssignment, pods: Iterable[Pod]) -> int:
    return sum(
        pod.namespace == workload.namespace
        and pod.annotations.get(labels.KUEUE_WORKLOAD) == workload.name
        and _pod_set(pod) in {"", assignment.name}
        and pod.status.phase != "Failed"
        for pod in pods
    )


def _pod_set(pod: Pod) -> str:
    return pod.labels.get(labels.KUEUE_POD_SET, "")


def _age(pod: Pod) -> tuple[str, str, str]:
    return pod.metadata.creation_timestamp, pod.namespace, pod.name
