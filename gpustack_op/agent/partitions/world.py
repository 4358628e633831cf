"""What the Pods of a node hold in partitions, as the upkeep of partitions sees it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpustack_op.agent.partitions.markers import Owner
from gpustack_op.api.worker import Placement
from gpustack_op.scheduling.claims import PodClaim, charged


@dataclass(frozen=True, slots=True)
class Held:
    """One partition that a Pod's record names. A finished Pod holds its place, but computes no more."""

    owner: Owner
    card: str
    profile: str
    place: Placement
    uuid: str
    finished: bool = False


@dataclass(frozen=True, slots=True)
class World:
    """`living` are the UIDs of all Pods of the node that are there, also of those whose record cannot be read."""

    living: frozenset[str] = frozenset()
    held: tuple[Held, ...] = ()

    def on(self, card: str) -> list[Held]:
        return [held for held in self.held if held.card == card]


def world_of(claims: Iterable[PodClaim]) -> World:
    present = list(claims)
    held = tuple(
        Held(Owner(claim.uid, container), entry.card, entry.profile, place, entry.partition_id, claim.finished)
        for claim in present
        for container, entry in charged(claim)
        if entry.is_partition
        for place in entry.placements
    )
    return World(frozenset(claim.uid for claim in present), held)
