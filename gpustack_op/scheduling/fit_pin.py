"""Pins a Workload to the nodes of which one card has the room that it asks of one card.

Promises  Pinning twice changes nothing. The pin stands in the Workload alone, never in a Pod: the kubelet looks at a
          Pod's affinity again when it restarts, and the labels fall as soon as the Pod holds its card.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from gpustack_op.api.kueue import PodSet
from gpustack_op.scheduling.fit_labels import shared_cards_label, sliced_units_label
from gpustack_op.scheduling.manufacturers import MANUFACTURERS, Family, Manufacturers
from gpustack_op.scheduling.node_affinity import expression, requiring
from gpustack_op.scheduling.requests import pod_set_demands
from gpustack_op.scheduling.sanitise import label_value

Json = dict[str, Any]


def fit_expressions(
    pod_set: PodSet, accelerator_key: str, manufacturers: Manufacturers = MANUFACTURERS
) -> tuple[Json, ...]:
    """What the labels of a node have to say for one Pod of the set."""
    demands = pod_set_demands(pod_set, manufacturers=manufacturers)
    units = max((demand.units for demand in demands if demand.family is Family.SLICED), default=0)
    cards = max((t.cards for demand in demands if demand.family is Family.SHARED for t in demand.tenants), default=0)
    found = []
    if units > 0:
        found.append(expression(sliced_units_label(accelerator_key), "Gt", str(units - 1)))
    if cards > 1:
        found.append(expression(shared_cards_label(accelerator_key), "Gt", str(cards - 1)))
    return tuple(found)


def fit_pinned(pod_sets: list[Json], accelerator_key: str) -> list[Json]:
    """The PodSets of a Workload with the pin; what cannot be read stays as it is."""
    if not accelerator_key or label_value(accelerator_key) != accelerator_key:
        return pod_sets
    return [_pinned(pod_set, accelerator_key) for pod_set in pod_sets]


def with_affinity(pod_set: Mapping[str, Any], affinity: Json | None) -> Json:
    """The PodSet with this affinity in its template, or with none."""
    template = pod_set.get("template") or {}
    spec = {key: value for key, value in (template.get("spec") or {}).items() if key != "affinity"}
    stated = {"affinity": affinity} if affinity else {}
    return {**pod_set, "template": {**template, "spec": {**spec, **stated}}}


def affinity_of(pod_set: Mapping[str, Any]) -> Json | None:
    found: Json | None = ((pod_set.get("template") or {}).get("spec") or {}).get("affinity")
    return found


def _pinned(pod_set: Json, accelerator_key: str) -> Json:
    try:
        expressions = fit_expressions(msgspec.convert(pod_set, PodSet), accelerator_key)
    except msgspec.ValidationError:
        return pod_set
    return with_affinity(pod_set, requiring(affinity_of(pod_set), expressions)) if expressions else pod_set
