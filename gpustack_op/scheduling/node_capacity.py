"""The counting resources of a node's status: what its cards hold in units, percents and MiB.

Promises  A family's keys are there only while its device plugin is, that is while the bare key is above zero in the
          node's capacity. Cards in a partitioning mode count for partitions only, all others for slices only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from gpustack_op.api.quantity import Quantity, QuantityError
from gpustack_op.api.worker import Card, DeviceGroup
from gpustack_op.scheduling.credits import card_credits
from gpustack_op.scheduling.manufacturers import Manufacturer
from gpustack_op.scheduling.sliced_detail import partition_ceiling, profiles_of, slice_ceiling


def counting_resources(row: Manufacturer, groups: Iterable[DeviceGroup], capacity: Mapping[str, str]) -> dict[str, int]:
    """The keys that one manufacturer's cards add to a node with this capacity."""
    own = [group for group in groups if group.manufacturer == row.id]
    resources: dict[str, int] = {}
    if _is_served(row.sliced, capacity):
        resources |= _sliced(row, own)
    if row.partitioned and _is_served(row.partitioned, capacity):
        resources |= _partitioned(row, [card for group in own for card in group.accelerators or ()])
    return resources


def _sliced(row: Manufacturer, groups: Sequence[DeviceGroup]) -> dict[str, int]:
    sliceable = [(group, card) for group in groups for card in group.accelerators or () if slice_ceiling(card)]
    return {
        row.sliced_units: card_credits(len(sliceable)),
        row.sliced_cores_percentage: sum(_cores_percentage(card) for _, card in sliceable),
        row.sliced_memory_percentage: 100 * len(sliceable),
        row.sliced_memory_mib: sum(group.memory for group, _ in sliceable),
    }


def _cores_percentage(card: Card) -> int:
    """Every slice of a card may ask for all its cores where they may be over-committed."""
    capability = card.status.logical_sliced
    return 100 * (capability.count if capability and capability.cores_percentage_overcommit else 1)


def _partitioned(row: Manufacturer, cards: Sequence[Card]) -> dict[str, int]:
    partitioned = [card for card in cards if partition_ceiling(card)]
    profiles: Counter[str] = Counter()
    for profile in (profile for card in partitioned for profile in profiles_of(card)):
        profiles[row.partitioned_profile(profile.name)] += profile.count
    return {row.partitioned_units: card_credits(len(partitioned)), **profiles}


def _is_served(resource: str, capacity: Mapping[str, str]) -> bool:
    try:
        return Quantity.parse(capacity.get(resource, "0")) > Quantity.of(0)
    except QuantityError:
        return False
