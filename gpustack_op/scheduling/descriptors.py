"""The hardware descriptors of an InstanceType's spec: manufacturer, product, family, memory, cores, feature.

Promises  A descriptor is given only once it is known, and one that has a value is never given again: each goes once
          from absent to a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gpustack_op.api.kueue import ResourceFlavor
from gpustack_op.api.worker import Card, Devices, InstanceType, InstanceTypeSpec
from gpustack_op.scheduling.flavor_facts import FlavorFacts, live_facts
from gpustack_op.scheduling.hardware import cards_of, pool_groups
from gpustack_op.scheduling.manufacturers import GENERIC
from gpustack_op.scheduling.pools import feeds, type_labels
from gpustack_op.scheduling.sliced_detail import partition_ceiling, slice_ceiling


def missing_descriptors(
    instance_type: InstanceType, flavors: Iterable[ResourceFlavor], devices: Iterable[Devices]
) -> dict[str, Any]:
    """The fields to add to the type's spec, in their JSON spelling; empty when nothing is new."""
    present = instance_type.spec
    known = descriptors(present, flavors, devices)
    return {name: value for name, value in known.items() if getattr(present, name) in (None, "")}


def descriptors(
    spec: InstanceTypeSpec, flavors: Iterable[ResourceFlavor], devices: Iterable[Devices]
) -> dict[str, Any]:
    """Everything that is known of the hardware such a spec selects, in JSON spelling."""
    pool_labels = type_labels(spec)
    described = next(iter(live_facts(flavor for flavor in flavors if feeds(flavor, pool_labels))), None)
    if described is None:
        return {}
    if not described.accelerator_group:
        joins_cpus = (spec.general_group or GENERIC) == GENERIC
        return {"manufacturer": GENERIC} if joins_cpus else _told(described)
    cards = cards_of(pool_groups(devices, pool_labels, described.accelerator_group))
    return _told(described) | ({"feature": feature(cards)} if cards else {})


def feature(cards: Sequence[Card]) -> dict[str, Any]:
    """How one card of the pool can be divided; the most capable card decides. Memory is sliced by whole percents."""
    largest = max(cards, key=slice_ceiling)
    sliceable = slice_ceiling(largest) > 0
    capability = largest.status.logical_sliced
    return {
        "logicalSliced": {
            "maxSize": slice_ceiling(largest),
            "coresPercentageOvercommit": bool(sliceable and capability and capability.cores_percentage_overcommit),
            "memoryPercentageStep": int(sliceable),
        },
        "physicalSliced": {"maxSize": max(map(partition_ceiling, cards))},
    }


def _told(facts: FlavorFacts) -> dict[str, Any]:
    fields = {
        "manufacturer": facts.manufacturer,
        "product": facts.product,
        "family": facts.family,
        "memory": facts.memory,
        "cores": facts.cores,
    }
    return {name: value for name, value in fields.items() if value}
