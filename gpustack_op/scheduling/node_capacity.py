"""The counting resources of a node's status: what its cards hold in units, percents and MiB.

Promises  A family's keys are there only while its device plugin is, that is while the bare key is above zero in the
          node's capacity. Cards in a partitioning mode count for partitions only, all others for slices only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from gpustack_op.api.quantity import Quantity, QuantityError
from gpustack_op.api.worker import Card, DeviceGroup, LedgerGroup, LedgerRow
from gpustack_op.scheduling.credits import card_credits
from gpustack_op.scheduling.manufacturers import Manufacturer
from gpustack_op.scheduling.memory_text import published_mebibytes
from gpustack_op.scheduling.placements import published
from gpustack_op.scheduling.sliced_detail import partition_ceiling, profiles_of, slice_ceiling


def counting_resources(
    row: Manufacturer,
    groups: Iterable[DeviceGroup],
    capacity: Mapping[str, str],
    ledger: Iterable[LedgerGroup] = (),
) -> dict[str, int]:
    """The keys that one manufacturer's cards add to a node with this capacity and this ledger."""
    own = [group for group in groups if group.manufacturer == row.id]
    rows = {card.id: card for group in ledger for card in group.accelerators or ()}
    resources: dict[str, int] = {}
    if _is_served(row.sliced, capacity):
        resources |= _sliced(row, own)
    if row.partitioned and _is_served(row.partitioned, capacity):
        resources |= _partitioned(row, [card for group in own for card in group.accelerators or ()], rows)
    return resources


def _sliced(row: Manufacturer, groups: Sequence[DeviceGroup]) -> dict[str, int]:
    sliceable = [(group, card) for group in groups for card in group.accelerators or () if slice_ceiling(card)]
    return {
        row.sliced_units: card_credits(len(sliceable)),
        row.sliced_cores_percentage: sum(_cores_percentage(card) for _, card in sliceable),
        row.sliced_memory_percentage: 100 * len(sliceable),
        row.sliced_memory_mib: sum(published_mebibytes(group.memory) for group, _ in sliceable),
    }


def _cores_percentage(card: Card) -> int:
    """Every slice of a card may ask for all its cores where they may be over-committed."""
    capability = card.status.logical_sliced
    return 100 * (capability.count if capability and capability.cores_percentage_overcommit else 1)


def _partitioned(row: Manufacturer, cards: Sequence[Card], rows: Mapping[str, LedgerRow]) -> dict[str, int]:
    partitioned = [card for card in cards if partition_ceiling(card)]
    profiles: Counter[str] = Counter()
    for card in partitioned:
        for name, count in _profiles(card, rows.get(card.id)).items():
            profiles[row.partitioned_profile(published(name))] += count
    return {row.partitioned_units: card_credits(len(partitioned)), **profiles}


def _profiles(card: Card, row: LedgerRow | None) -> dict[str, int]:
    """By profile, partitions in use and those still possible: the scheduler takes off what its Pods hold."""
    if row is None or not (row.allocated_profiles or row.remaining_profiles):
        return {profile.name: profile.count for profile in profiles_of(card)}
    told = Counter({profile.name: 0 for profile in profiles_of(card)})
    for entry in (*(row.allocated_profiles or ()), *(row.remaining_profiles or ())):
        told[entry.name] += entry.count
    return dict(told)


def _is_served(resource: str, capacity: Mapping[str, str]) -> bool:
    try:
        return Quantity.parse(capacity.get(resource, "0")) > Quantity.of(0)
    except QuantityError:
        return False
