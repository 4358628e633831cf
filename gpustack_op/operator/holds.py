"""Takes a Workload that fits nowhere out of its queue for a while, and lets it back in, pinned to where it fits.

A Workload that holds quota blocks it for others and is sent to the same node again and again. Kueue gives the quota
back when `spec.active` becomes false, the gated Pod survives, and only then may the affinity of its PodSets change.

Guarantees   What we did stands in annotations, written together with it: who held the Workload, and what its affinity
             was before. A Workload that a person deactivated has none and is not ours.
Assumptions  Every write is of exactly the state that was seen; a Conflict means that it has to be looked at again.
Recovery     None needed: each write leaves a state of its own, from which the next one follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gpustack_op.api.kueue import Workload
from gpustack_op.operator.workload_fit import WHOLE_WORKLOADS, write
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.reconciler import TryAgainError
from gpustack_op.scheduling import labels
from gpustack_op.scheduling.fit_pin import affinity_of, with_affinity
from gpustack_op.scheduling.node_affinity import expression, requiring

HELD = "gpustack.ai/held"
"""Annotation of a Workload that we deactivated: the sentence that says why."""

PINNED = "gpustack.ai/pinned"
"""Annotation of a Workload whose PodSets we pinned: by PodSet, to which nodes, and the affinity before, as JSON."""

FIELD_MANAGER = "gpustack-admission-judge"

Json = dict[str, Any]
Pins = Mapping[str, Sequence[str]]
"""By PodSet, the hostnames it may go to. A PodSet without an entry may go anywhere."""


def is_held(workload: Workload) -> bool:
    return HELD in workload.annotations and not workload.spec.active


def pins_of(annotation: str | None) -> dict[str, tuple[str, ...]]:
    """The hostnames by PodSet."""
    return {name: tuple(pin.get("nodes") or ()) for name, pin in _stored(annotation).items()}


class Holds:
    def __init__(self, client: Client) -> None:
        self.client = client

    async def hold(self, workload: Workload, sentence: str) -> None:
        patch = {"metadata": {"annotations": {HELD: sentence}}, "spec": {"active": False}}
        await write(self.client, workload, patch, manager=FIELD_MANAGER)

    async def deactivate(self, workload: Workload) -> None:
        """For good: a person has to activate it again."""
        await write(self.client, workload, {"spec": {"active": False}}, manager=FIELD_MANAGER)

    async def disown(self, workload: Workload) -> None:
        """Somebody else has activated it."""
        await write(self.client, workload, {"metadata": {"annotations": {HELD: None}}}, manager=FIELD_MANAGER)

    async def release(self, workload: Workload, pins: Pins) -> None:
        """Active again, pinned to these nodes and no longer to those of before."""
        whole = await self.client.get(WHOLE_WORKLOADS, workload.name, workload.namespace)
        if whole.metadata.resource_version != workload.metadata.resource_version:
            raise TryAgainError(f"{workload.namespace}/{workload.name} has changed meanwhile")
        present = whole.spec.get("podSets") or []
        pod_sets, stored = repinned(present, pins, _stored(whole.annotations.get(PINNED)))
        annotations = {HELD: None, PINNED: msgspec.json.encode(stored).decode() if stored else None}
        spec: Json = {"active": True} if HELD in whole.annotations else {}
        if pod_sets != present:
            spec["podSets"] = pod_sets
        if any(whole.annotations.get(key) != value for key, value in annotations.items()) or spec:
            patch = {"metadata": {"annotations": annotations}, "spec": spec}
            await write(self.client, whole, patch, manager=FIELD_MANAGER)


def repinned(present: Sequence[Json], pins: Pins, stored: Mapping[str, Json]) -> tuple[list[Json], dict[str, Json]]:
    """The PodSets with these pins instead of those, and what to remember of them."""
    pod_sets, remembered = [], {}
    for pod_set in present:
        name = pod_set.get("name") or ""
        before = stored[name].get("affinity") if name in stored else affinity_of(pod_set)
        if nodes := list(pins.get(name) or ()):
            remembered[name] = {"nodes": nodes, "affinity": before}
            affinity: Json | None = requiring(before, [expression(labels.HOSTNAME, "In", *nodes)])
        else:
            affinity = before
        changes = nodes or name in stored
        pod_sets.append(with_affinity(pod_set, affinity) if changes else pod_set)
    return pod_sets, remembered


def _stored(annotation: str | None) -> dict[str, Json]:
    try:
        return msgspec.json.decode(annotation or "{}", type=dict[str, dict[str, Any]])
    except msgspec.DecodeError:
        return {}
