"""What the cards of one node can still give, and which card a request gets.

Guarantees   One rule says which card is taken, for the agent that hands it out and for whoever foresees that: a whole
             card is the first that is free; a share is on the card with most free shares among those already shared,
             else on a free one; a slice is on the card with least room that still takes it; a partition is where
             `placements` puts it. Taking never gives back and never goes over a card.
Assumptions  A sick card, and one that is recorded in two ways, gives nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from gpustack_op.api.worker import Card, DeviceGroup, LedgerRow, PhysicalProfile, Placement
from gpustack_op.scheduling.accelerator_key import accelerator_key
from gpustack_op.scheduling.credits import CARD, SHARE
from gpustack_op.scheduling.ledger import Ledger
from gpustack_op.scheduling.manufacturers import Family
from gpustack_op.scheduling.placements import PartitionCard, choose_places
from gpustack_op.scheduling.requests import Demand
from gpustack_op.scheduling.sliced_detail import partition_ceiling, profiles_of, slice_ceiling


@dataclass(frozen=True, slots=True, kw_only=True)
class CardTraits:
    """What no allocation changes. `slices` is how many the card takes."""

    id: str
    key: str
    manufacturer: str
    usable: bool
    partitioned: bool
    slices: int
    profiles: tuple[PhysicalProfile, ...]

    def serves(self, family: Family) -> bool:
        """Whether the card, as it is configured, takes part in a family at all."""
        if family is Family.PARTITIONED:
            return self.partitioned
        return not self.partitioned and (family is not Family.SLICED or self.slices > 0)


@dataclass(frozen=True, slots=True)
class CardUse:
    """What is in use on a card."""

    mode: Family
    remaining: int
    slices: int = 0
    occupied: tuple[Placement, ...] = ()

    def open_to(self, family: Family) -> bool:
        return self.mode in {Family.NONE, family}


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One thing to take: a card, a share on each of `cards` cards, a slice or a partition.

    `key` limits it to cards of one accelerator key; empty means any card of the manufacturer.
    """

    family: Family
    manufacturer: str
    key: str = ""
    units: int = 0
    cards: int = 1
    profile: str = ""


Pieces = Iterable[tuple[Piece, int]]
"""Kinds of pieces and how many of each."""


@dataclass(frozen=True, slots=True)
class CardBudget:
    """The cards of one node, by index within each manufacturer, and their use."""

    cards: tuple[CardTraits, ...]
    uses: tuple[CardUse, ...]

    def covered(self, piece: Piece) -> Iterator[tuple[CardTraits, CardUse]]:
        """The cards that the piece may come from, whatever is in use on them."""
        return (
            (card, use)
            for card, use in zip(self.cards, self.uses, strict=True)
            if card.manufacturer == piece.manufacturer and piece.key in {"", card.key}
        )

    def choose(self, piece: Piece) -> list[tuple[str, CardUse]] | None:
        """The cards that a piece gets and their use after that; None when it does not fit."""
        possible = [
            (card, use)
            for card, use in self.covered(piece)
            if card.usable and card.serves(piece.family) and use.open_to(piece.family)
        ]
        if piece.family is Family.PARTITIONED:
            return _partition(piece, possible)
        fitting = sorted((c for c in possible if _fits(piece, *c)), key=lambda c: _preference(piece.family, c[1]))
        if not 0 < piece.cards <= len(fitting):
            return None
        return [(card.id, _used(piece, use)) for card, use in fitting[: piece.cards]]

    def after(self, piece: Piece) -> CardBudget | None:
        """The budget once the piece is taken; None when it does not fit."""
        chosen = self.choose(piece)
        if chosen is None:
            return None
        changed = dict(chosen)
        uses = (changed.get(card.id, use) for card, use in zip(self.cards, self.uses, strict=True))
        return replace(self, uses=tuple(uses))

    def after_all(self, pieces: Pieces) -> tuple[CardBudget, list[tuple[Piece, int]]]:
        """The budget once all that fits is taken, and what was."""
        budget, landed = self, []
        for piece, count in pieces:
            number = 0
            while number < count and (following := budget.after(piece)):
                budget, number = following, number + 1
            landed.append((piece, number))
        return budget, landed


def card_budget(groups: Iterable[DeviceGroup], ledger: Ledger) -> CardBudget:
    rows, cards, uses = ledger.rows, [], []
    for group in groups:
        for card in sorted(group.accelerators or (), key=lambda card: card.index):
            cards.append(_traits(group, card, usable=not card.status.unhealthy and card.id not in ledger.disputed))
            uses.append(_use(rows[card.id], ledger.occupied.get(card.id, ())))
    return CardBudget(tuple(cards), tuple(uses))


def pieces_of(demand: Demand, key: str = "") -> list[tuple[Piece, int]]:
    """A demand as the pieces it is served in, the most difficult first."""
    piece = Piece(
        family=demand.family,
        manufacturer=demand.manufacturer,
        key=key,
        units=max(demand.units, 1),
        profile=demand.profile,
    )
    if demand.family is Family.SHARED:
        return [(replace(piece, cards=same.cards), same.containers) for same in demand.tenants]
    return [(piece, demand.cards)]


def _traits(group: DeviceGroup, card: Card, *, usable: bool) -> CardTraits:
    return CardTraits(
        id=card.id,
        key=accelerator_key(group.manufacturer, group.id),
        manufacturer=group.manufacturer,
        usable=usable,
        partitioned=partition_ceiling(card) > 0,
        slices=slice_ceiling(card),
        profiles=tuple(profiles_of(card)),
    )


def _use(row: LedgerRow, occupied: tuple[Placement, ...]) -> CardUse:
    return CardUse(Family(row.mode), row.remaining, row.allocated_slices, occupied)


def _fits(piece: Piece, card: CardTraits, use: CardUse) -> bool:
    if piece.family is Family.EXCLUSIVE:
        return use.mode is Family.NONE and use.remaining >= CARD
    if piece.family is Family.SHARED:
        return use.remaining >= SHARE
    return use.slices < card.slices and use.remaining >= piece.units


def _preference(family: Family, use: CardUse) -> tuple[bool, int]:
    """The smaller, the sooner; cards that are alike go by their place."""
    if family is Family.SHARED:
        return use.mode is Family.NONE, -use.remaining
    return False, use.remaining


def _used(piece: Piece, use: CardUse) -> CardUse:
    takes = {Family.EXCLUSIVE: CARD, Family.SHARED: SHARE}.get(piece.family, piece.units)
    return replace(
        use,
        mode=piece.family,
        remaining=max(use.remaining - takes, 0),
        slices=use.slices + (piece.family is Family.SLICED),
    )


def _partition(piece: Piece, possible: Sequence[tuple[CardTraits, CardUse]]) -> list[tuple[str, CardUse]] | None:
    uses = {card.id: use for card, use in possible}
    cards = [PartitionCard(card.id, card.profiles, use.occupied) for card, use in possible]
    places = choose_places(piece.profile, cards, piece.cards)
    if places is None:
        return None
    return [(card.id, _with_place(_used(piece, uses[card.id]), place)) for card, place in places]


def _with_place(use: CardUse, place: Placement) -> CardUse:
    return replace(use, occupied=tuple(sorted((*use.occupied, place), key=lambda place: place.start)))
