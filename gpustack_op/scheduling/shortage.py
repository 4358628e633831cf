"""Why a demand does not fit on a node, in one sentence that names the node, a card, what was asked and what is free.

Promises  The sentence stays the same as long as nothing changed, and holds no per-cent sign: Kueue formats messages.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpustack_op.scheduling.card_budget import CardBudget, CardTraits, CardUse, Piece
from gpustack_op.scheduling.credits import CARD, PERCENT, SHARE
from gpustack_op.scheduling.manufacturers import Family
from gpustack_op.scheduling.placements import profile_named, published, remaining_profiles

Cards = Sequence[tuple[CardTraits, CardUse]]


def shortage(node: str, budget: CardBudget, piece: Piece, count: int) -> str:
    """Of so many such pieces, on the budget they were asked of."""
    covered = list(budget.covered(piece))
    serving = [(card, use) for card, use in covered if card.serves(piece.family)]
    sort = piece.key or piece.manufacturer
    if not covered:
        reason = f"there is no {sort} card"
    elif not serving:
        reason = f"no {sort} card is {_POPULATION[piece.family]}, card {covered[0][0].id} for one is not"
    else:
        reason = _free(piece, serving)
    return f"node {node}: asked for {_asked(piece, count)} of {sort}, but {reason}"


def percent_text(units: int) -> str:
    """So many units of a card in percent, rounded down to hundredths: `33.33 percent`."""
    whole, rest = divmod(max(units, 0) * 100 // PERCENT, 100)
    return f"{whole}.{rest:02} percent" if rest else f"{whole} percent"


_POPULATION = {
    Family.EXCLUSIVE: "given out whole",
    Family.SHARED: "given out whole",
    Family.SLICED: "given out in slices",
    Family.PARTITIONED: "in a partitioning mode",
}


def _asked(piece: Piece, count: int) -> str:
    if piece.family is Family.EXCLUSIVE:
        return _number(count, "whole card")
    if piece.family is Family.SHARED:
        each = "one share" if piece.cards == 1 else f"one share on each of {piece.cards} cards"
        return each if count == 1 else f"{count} times {each}"
    if piece.family is Family.SLICED:
        return f"{_number(count, 'slice')} of {percent_text(piece.units)}"
    return _number(count, f"{published(piece.profile)} partition")


def _free(piece: Piece, serving: Cards) -> str:
    if piece.family is Family.EXCLUSIVE:
        free = [card for card, use in serving if card.usable and use.mode is Family.NONE and use.remaining >= CARD]
        return f"{len(free)} of {len(serving)} cards free{_busy(serving, free)}"
    if piece.family is Family.SHARED:
        free = [c for c, use in serving if c.usable and use.open_to(Family.SHARED) and use.remaining >= SHARE]
        return f"{len(free)} of {len(serving)} cards have a free share{_busy(serving, free)}"
    return _freest_slice(serving) if piece.family is Family.SLICED else _places(piece, serving)


def _busy(serving: Cards, free: Sequence[CardTraits]) -> str:
    """The first card that has nothing to give."""
    return next((f"; card {card.id} {_state(card, use)}" for card, use in serving if card not in free), "")


def _state(card: CardTraits, use: CardUse) -> str:
    return f"is in use ({use.mode.name.lower()})" if card.usable else "is sick or in dispute"


def _freest_slice(serving: Cards) -> str:
    usable = [(card, use) for card, use in serving if card.usable and use.open_to(Family.SLICED)]
    if not usable:
        return f"0 percent free on every card; card {serving[0][0].id} {_state(*serving[0])}"
    card, use = max(usable, key=lambda one: (one[1].slices < one[0].slices, one[1].remaining))
    if use.slices >= card.slices:
        return f"card {card.id} has {use.slices} slices already, the most it takes"
    return f"the freest card, {card.id}, has {percent_text(use.remaining)} free"


def _places(piece: Piece, serving: Cards) -> str:
    usable = [(card, use) for card, use in serving if card.usable and use.open_to(Family.PARTITIONED)]
    if not usable:
        return f"0 places free; card {serving[0][0].id} {_state(*serving[0])}"
    if not any(profile.placements for card, _ in usable for profile in card.profiles):
        return f"the places of card {usable[0][0].id} are not known yet; its agent has still to report them"
    offering = [(card, use) for card, use in usable if profile_named(piece.profile, card.profiles)]
    if not offering:
        return f"card {usable[0][0].id} offers no such partition; it has {_profiles(usable[0][0])}"
    card, use = max(offering, key=lambda one: sum(remaining_profiles(one[0].profiles, one[1].occupied).values()))
    left = remaining_profiles(card.profiles, use.occupied)
    told = ", ".join(f"{count} of {published(name)}" for name, count in sorted(left.items())) or "none"
    return f"card {card.id} has no more places for it (free places: {told})"


def _profiles(card: CardTraits) -> str:
    return ", ".join(sorted(published(profile.name) for profile in card.profiles)) or "none"


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
