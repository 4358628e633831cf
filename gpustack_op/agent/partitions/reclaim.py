"""Which partitions of a card go: those whose Pod is gone, and those that never were anybody's.

Guarantees   Nothing goes before it was found without an owner in three passes in a row. Nothing that overlaps what a
             living Pod holds ever goes, nor anything without a marker while the card serves a living Pod, nor anything
             that somebody divided further by hand.
Assumptions  Instances and markers were read under the card's lock, which is still held when the plan is carried out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpustack_op.agent.partitions.driver import Instance
from gpustack_op.agent.partitions.markers import Marker
from gpustack_op.agent.partitions.world import World
from gpustack_op.scheduling.placements import overlap

PASSES = 3
"""In how many passes in a row a partition has to be without an owner: a list of Pods may lag once."""

Misses = Mapping[str, int]
"""By Pod UID, or by `NOBODY` for what has no marker: passes in a row in which there was no owner."""

NOBODY = ""


@dataclass(frozen=True, slots=True)
class Gone:
    """A partition to take down, a marker to remove, or first the one and then the other."""

    instance: Instance | None
    marker: Marker | None
    misses: int


@dataclass(frozen=True, slots=True)
class Plan:
    gone: tuple[Gone, ...]
    misses: Misses


def planned(card: str, instances: Sequence[Instance], markers: Sequence[Marker], world: World, before: Misses) -> Plan:
    misses = {marker.pod: before.get(marker.pod, 0) + 1 for marker in markers if marker.pod not in world.living}
    gone = [_of_marker(marker, instances, misses[marker.pod]) for marker in markers if _is_over(marker, world, misses)]
    orphans = _orphans(card, instances, markers, world)
    if orphans:
        misses[NOBODY] = before.get(NOBODY, 0) + 1
        if misses[NOBODY] >= PASSES:
            gone += [Gone(orphan, None, misses[NOBODY]) for orphan in orphans]
    return Plan(tuple(gone), misses)


def _is_over(marker: Marker, world: World, misses: Misses) -> bool:
    claimed = any(overlap(marker.place, held.place) for held in world.on(marker.card))
    return misses.get(marker.pod, 0) >= PASSES and not claimed


def _of_marker(marker: Marker, instances: Sequence[Instance], misses: int) -> Gone:
    """The instance goes only if it is still the one that was marked: the driver gives numbers out again."""
    live = next((instance for instance in instances if instance.id == marker.instance), None)
    is_same = live is not None and live.uuid == marker.uuid and live.parts <= 1
    return Gone(live if is_same else None, marker, misses)


def _orphans(card: str, instances: Sequence[Instance], markers: Sequence[Marker], world: World) -> list[Instance]:
    """What nobody marked, on a card that serves nobody."""
    serves = bool(world.on(card)) or any(marker.pod in world.living for marker in markers)
    marked = {marker.instance for marker in markers}
    return [] if serves else [one for one in instances if one.id not in marked and one.parts <= 1]
