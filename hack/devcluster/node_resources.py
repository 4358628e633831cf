"""What a node's status says of its resources, as a change of what it said before.

Guarantees   Plugins' figures overwrite their keys; resources whose plugin has been gone for long become 0 and stay;
             capacity that others have added is left alone and offered; what is no longer in capacity is not offered.
             Only differences are written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from devcluster.node_objects import extended
from gpustack_op.api.quantity import Quantity


@dataclass(frozen=True, slots=True)
class Offer:
    """What device plugins offer: counts by resource, and the resources that have just been dropped."""

    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]
    dropped: Collection[str]


NO_OFFER: Final = Offer({}, {}, ())

Change = dict[str, dict[str, str | None]]


def change(capacity: Mapping[str, str], allocatable: Mapping[str, str], offer: Offer) -> Change:
    """What to patch; None removes. Empty when nothing is to be said."""
    present = extended(capacity)
    wanted = {**present, **_text(offer.capacity), **dict.fromkeys(offer.dropped, "0")}
    offered = {**wanted, **_text(offer.allocatable)}
    parts = {
        "capacity": _difference(present, wanted),
        "allocatable": _difference(extended(allocatable), offered),
    }
    return {name: part for name, part in parts.items() if part}


def _text(counts: Mapping[str, int]) -> dict[str, str]:
    """As the API server writes numbers, or the same would look different each time."""
    return {resource: Quantity.of(count).canonical() for resource, count in counts.items()}


def _difference(present: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str | None]:
    found: dict[str, str | None] = {name: text for name, text in wanted.items() if present.get(name) != text}
    return found | dict.fromkeys(present.keys() - wanted.keys())
