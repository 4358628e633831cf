"""Whether pieces that are promised on a node find their cards in whatever order their Pods arrive.

Guarantees   True is certain: no order leaves a piece without a card, as long as cards are chosen by the rule of
             `card_budget`. False means that some order does, or that there are too many orders to look at.
Assumptions  Nothing else is taken from the node meanwhile, and nothing is given back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gpustack_op.scheduling.card_budget import CardBudget, Piece, Pieces
from gpustack_op.scheduling.credits import CARD, SHARES
from gpustack_op.scheduling.manufacturers import Family

Counts = Counter[Piece]


def lands_in_any_order(budget: CardBudget, pieces: Pieces, *, limit: int = 500) -> bool:
    """Looks at `limit` states at most, which are some 50 ms."""
    counts: Counts = Counter()
    for piece, count in pieces:
        counts[piece] += count
    return all(_surely_fits(budget, part) or _always_fits(budget, part, limit) for part in _independent(+counts))


def _independent(counts: Counts) -> Iterator[Counts]:
    """Pieces that cannot get in each other's way, apart."""
    keyed = all(piece.key for piece in counts)
    parts: dict[tuple[bool, str], Counts] = {}
    for piece, count in counts.items():
        part = piece.family is Family.PARTITIONED, piece.key if keyed else piece.manufacturer
        parts.setdefault(part, Counter())[piece] = count
    yield from parts.values()


def _surely_fits(budget: CardBudget, counts: Counts) -> bool:
    """Whether there are as many free cards as the pieces can open at the worst; then no order matters."""
    families = {piece.family for piece in counts}
    if Family.PARTITIONED in families or len({piece.key for piece in counts}) > 1:
        return False
    cards = list(budget.covered(next(iter(counts))))
    free = [
        card
        for card, use in cards
        if use.mode is Family.NONE and card.usable and all(card.serves(family) for family in families)
    ]
    slots = min((card.slices for card in free), default=0)
    whole = sum(count for piece, count in counts.items() if piece.family is Family.EXCLUSIVE)
    return whole + _opened_by_shares(counts) + _opened_by_slices(counts, slots) <= len(free)


def _opened_by_shares(counts: Counts) -> int:
    """A single share opens a card only when all shared ones are full; several at once may each open one."""
    shares = {piece: count for piece, count in counts.items() if piece.family is Family.SHARED}
    total = sum(piece.cards * count for piece, count in shares.items())
    several = sum(piece.cards * count for piece, count in shares.items() if piece.cards > 1)
    return several if several == total else several + -(-total // SHARES)


def _opened_by_slices(counts: Counts, slots: int) -> int:
    """A slice opens a card only when none of those opened before takes it.

    So all but the last are filled to more than a card less the largest slice, and any two to more than one card.
    """
    slices = {piece.units: count for piece, count in counts.items() if piece.family is Family.SLICED}
    number = sum(slices.values())
    if not number or number > slots:
        return number
    total = sum(units * count for units, count in slices.items())
    left_free = CARD - max(slices) + 1
    if left_free <= 0:
        return number
    return min(number, 1 + (total - 1) // left_free, 1 + 2 * ((total - 1) // CARD))


def _always_fits(budget: CardBudget, counts: Counts, limit: int) -> bool:
    kinds = list(counts)
    start = (budget, tuple(counts.values()))
    seen, ahead = {(budget.uses, start[1])}, [start]
    while ahead:
        now, left = ahead.pop()
        for position, piece in enumerate(kinds):
            if not left[position]:
                continue
            following = now.after(piece)
            if following is None or len(seen) >= limit:
                return False
            fewer = (*left[:position], left[position] - 1, *left[position + 1 :])
            if (following.uses, fewer) not in seen:
                seen.add((following.uses, fewer))
                ahead.append((following, fewer))
    return True
