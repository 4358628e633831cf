"""What the request rules need to know of the pool that a Pod enters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpustack_op.api.kueue import ResourceFlavor
from gpustack_op.api.quantity import Quantity, QuantityError
from gpustack_op.api.worker import InstanceType
from gpustack_op.scheduling import labels
from gpustack_op.scheduling.flavor_facts import FlavorFacts, is_ours
from gpustack_op.scheduling.memory_text import MEBIBYTE
from gpustack_op.scheduling.pools import type_labels


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFacts:
    """`name` is the InstanceType's. `memory` (MiB of one accelerator) and `largest_node` (accelerators, sick ones
    included) are 0 while unknown; `detailed` tells whether the operator has looked at the hardware yet.
    """

    name: str
    accelerator_group: str = ""
    """Empty for a pool of CPUs."""
    memory: int = 0
    detailed: bool = False
    profiles: Mapping[str, int] = field(default_factory=dict)
    """The partition profiles on offer and the memory of each in MiB, 0 while unknown."""
    largest_node: int = 0

    @property
    def manufacturer(self) -> str:
        """Of the accelerators; empty for a pool of CPUs."""
        return labels.manufacturer_of(self.accelerator_group)

    @staticmethod
    def of(type_: InstanceType, flavors: Iterable[ResourceFlavor]) -> PoolFacts:
        group = (type_.spec.accelerator_group or "") if type_.spec.acceleratable else ""
        detail = _mapping((type_.status or {}).get("detail"))
        return PoolFacts(
            name=type_.name,
            accelerator_group=group,
            memory=_mebibytes(detail.get("memory")),
            detailed=bool(detail),
            profiles=_profiles(detail),
            largest_node=_largest_node(type_, flavors) if group else 0,
        )


def _largest_node(type_: InstanceType, flavors: Iterable[ResourceFlavor]) -> int:
    selector = labels.flavor_selector(type_labels(type_.spec))
    feeding = (FlavorFacts.of(each) for each in flavors if is_ours(each) and labels.selects(selector, each.labels))
    return max((facts.count for facts in feeding if facts.capacity > 0), default=0)


def _profiles(detail: Mapping[str, Any]) -> dict[str, int]:
    physical = _mapping(_mapping(detail.get("slicedDetail")).get("physical"))
    return {each["name"]: each.get("memoryMib") or 0 for each in physical.get("profiles") or ()}


def _mebibytes(memory: object) -> int:
    try:
        return int(Quantity.parse(memory)) // MEBIBYTE if isinstance(memory, str | int) else 0
    except QuantityError:
        return 0


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
