"""What must hold before a container is given the cards that the kubelet chose.

Guarantees   No card is given in two ways at once, none as a whole to two, none to more than ten shares, and none is
             filled beyond its units or its slots; whoever asks again for what it holds is not counted against itself.
             A refusal is one sentence that names the card, what was asked and what is free.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpustack_op.api.worker import Card, DeviceGroup
from gpustack_op.scheduling.claims import Holder, PodClaim, holders
from gpustack_op.scheduling.credits import SHARES
from gpustack_op.scheduling.manufacturers import Family
from gpustack_op.scheduling.records import Entry
from gpustack_op.scheduling.sliced_detail import partition_ceiling, slice_ceiling
from gpustack_op.scheduling.slices import Room, occupancy, room

Site = tuple[DeviceGroup, Card]
"""A card and its group."""

NO_HOLDERS: Mapping[Holder, list[Entry]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What a container would get: cards, how many tokens of each, and the units each is charged."""

    holder: Holder
    family: Family
    sites: Sequence[Site]
    tokens: Mapping[str, int]
    units: Mapping[str, int]


def refusal(proposal: Proposal, claims: Sequence[PodClaim], *, withheld: Collection[str] = ()) -> str:
    """Why not; empty when nothing speaks against it."""
    return next(_doubts(proposal, claims, withheld), "")


def slice_room(claims: Iterable[PodClaim], card: Card, holder: Holder) -> Room:
    return room(slice_ceiling(card), occupancy(claims).get(card.id, {}), besides=holder)


def _doubts(proposal: Proposal, claims: Sequence[PodClaim], withheld: Collection[str]) -> Iterator[str]:
    held = holders(claims)
    for _group, card in sorted(proposal.sites, key=lambda site: site[1].id):
        others = {holder: got for holder, got in held.get(card.id, NO_HOLDERS).items() if holder != proposal.holder}
        if card.id in withheld:
            yield f"card {card.id} is withheld until its record agrees with the kubelet"
        yield from _unfit(proposal.family, card)
        yield from _crossed(proposal.family, card, others)
        yield from _full(proposal, card, others, claims)


def _unfit(family: Family, card: Card) -> Iterator[str]:
    if card.status.unhealthy:
        yield f"card {card.id} is not healthy"
    if (family is Family.PARTITIONED) != bool(partition_ceiling(card)):
        yield f"card {card.id} is {'' if partition_ceiling(card) else 'not '}in a partitioning mode"


def _crossed(family: Family, card: Card, others: Mapping[Holder, Sequence[Entry]]) -> Iterator[str]:
    for entries in others.values():
        for entry in entries:
            if entry.mode is not family:
                yield f"card {card.id} is held as {entry.mode.name.lower()} and was asked for as {family.name.lower()}"


def _full(
    proposal: Proposal, card: Card, others: Mapping[Holder, Sequence[Entry]], claims: Sequence[PodClaim]
) -> Iterator[str]:
    tokens, units = proposal.tokens.get(card.id, 1), proposal.units.get(card.id, 0)
    if proposal.family is Family.EXCLUSIVE and others:
        yield f"card {card.id} is held as a whole by another container"
    if proposal.family is Family.SHARED:
        if tokens > 1:
            yield f"a container takes one share of a card; {tokens} shares of card {card.id} were offered"
        if len(others) >= SHARES:
            yield f"card {card.id} has {len(others)} shares in use, and no more than {SHARES}"
    if proposal.family is Family.SLICED:
        free = slice_room(claims, card, proposal.holder)
        if not free.takes(units):
            yield (
                f"card {card.id} has {free.units} units and {max(free.slots, 0)} slices left; {units} units were asked"
            )
