"""Where hardware partitions go: intervals of a card's memory slices.

Guarantees   A place is one the driver listed for an empty card and overlaps nothing that is occupied. The same cards
             and the same request always give the same place, so that whoever foresees an allocation foresees the place.
             Among the places of a card the one is taken that keeps the largest profile possible, then the one that
             leaves most places over all profiles, then the first.
Assumptions  A profile without listed places was not inspected yet and can be placed nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpustack_op.api.worker import PhysicalProfile, Placement

Occupied = Sequence[Placement]


@dataclass(frozen=True, slots=True)
class PartitionCard:
    """A card that may take a partition, as it is now."""

    id: str
    profiles: Sequence[PhysicalProfile]
    occupied: Occupied = ()


def overlap(one: Placement, other: Placement) -> bool:
    return one.start < other.start + other.length and other.start < one.start + one.length


def published(profile: str) -> str:
    """A profile's name as part of a resource's name, where no `+` may stand: `1g.10gb.me` for `1g.10gb+me`."""
    return profile.replace("+", ".")


def profile_named(name: str, profiles: Iterable[PhysicalProfile]) -> PhysicalProfile | None:
    """By the driver's name or the published one."""
    return next((profile for profile in profiles if name in {profile.name, published(profile.name)}), None)


def free_places(profile: PhysicalProfile, occupied: Occupied) -> list[Placement]:
    """By start."""
    free = [place for place in profile.placements or () if not any(overlap(place, taken) for taken in occupied)]
    return sorted(free, key=lambda place: place.start)


def free_starts(profile: PhysicalProfile, occupied: Occupied) -> list[int]:
    return [place.start for place in free_places(profile, occupied)]


def remaining_profiles(profiles: Iterable[PhysicalProfile], occupied: Occupied) -> dict[str, int]:
    """How many places each profile still has; profiles without any are left out."""
    counted = {profile.name: len(free_places(profile, occupied)) for profile in profiles}
    return {name: count for name, count in counted.items() if count}


def choose_start(profile: PhysicalProfile, occupied: Occupied, profiles: Sequence[PhysicalProfile]) -> Placement | None:
    """The place for one more partition on a card that offers these profiles."""

    def merit(place: Placement) -> tuple[tuple[int, int, int], int, int]:
        left = [other for other in profiles if free_places(other, [*occupied, place])]
        places = sum(len(free_places(other, [*occupied, place])) for other in left)
        return max(map(_size, left), default=(0, 0, 0)), places, -place.start

    return max(free_places(profile, occupied), key=merit, default=None)


def choose_places(
    name: str, cards: Iterable[PartitionCard], count: int = 1
) -> list[tuple[PartitionCard, Placement]] | None:
    """Places on so many different cards, the fullest cards first; None when there are not enough."""
    possible = []
    for card in sorted(cards, key=lambda card: -sum(place.length for place in card.occupied)):
        profile = profile_named(name, card.profiles)
        place = choose_start(profile, card.occupied, card.profiles) if profile else None
        if place:
            possible.append((card, place))
    return possible[:count] if len(possible) >= count else None


def _size(profile: PhysicalProfile) -> tuple[int, int, int]:
    """Larger in memory slices, then in compute, then in MiB."""
    length = max((place.length for place in profile.placements or ()), default=0)
    return length, profile.compute_slices, profile.memory_mib
