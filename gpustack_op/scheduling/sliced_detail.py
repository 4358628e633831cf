"""What a set of cards can be divided into: a catalogue of capability that never moves with allocations.

A card serves one population: in a partitioning mode it takes partitions only, otherwise logical slices if it can.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpustack_op.api.worker import Card, LogicalSliced, PhysicalProfile, PhysicalSliced, SlicedDetail


def partition_ceiling(card: Card) -> int:
    """The largest number of partitions the card takes; 0 unless it is in a partitioning mode."""
    return card.status.physical_sliced.count if card.status.physical_sliced else 0


def slice_ceiling(card: Card) -> int:
    """How many logical slices the card takes; 0 for a partitioned one."""
    return card.status.logical_sliced.count if card.status.logical_sliced and not partition_ceiling(card) else 0


def profiles_of(card: Card) -> Sequence[PhysicalProfile]:
    return (card.status.physical_sliced.profiles or ()) if card.status.physical_sliced else ()


def sliced_detail(cards: Iterable[Card]) -> SlicedDetail | None:
    """Counts summed over the cards; None when none of them can be divided."""
    members = tuple(cards)
    logical, physical = _logical(members), _physical(members)
    return SlicedDetail(logical=logical, physical=physical) if logical or physical else None


def _logical(cards: Sequence[Card]) -> LogicalSliced | None:
    sliceable = [card.status.logical_sliced for card in cards if slice_ceiling(card) and card.status.logical_sliced]
    if not sliceable:
        return None
    return LogicalSliced(
        count=sum(capability.count for capability in sliceable),
        cores_percentage_overcommit=any(capability.cores_percentage_overcommit for capability in sliceable),
    )


def _physical(cards: Sequence[Card]) -> PhysicalSliced | None:
    ceiling = sum(partition_ceiling(card) for card in cards)
    if not ceiling:
        return None
    profiles: dict[str, PhysicalProfile] = {}
    for profile in (profile for card in cards for profile in profiles_of(card)):
        before = profiles.get(profile.name)
        memory = before.memory_mib if before else profile.memory_mib
        total = profile.count + (before.count if before else 0)
        profiles[profile.name] = PhysicalProfile(name=profile.name, memory_mib=memory, count=total)
    return PhysicalSliced(count=ceiling, profiles=tuple(profiles.values()))
