"""The arithmetic of quota: what requests cost, in units of which a card has 1,600,000.

Guarantees  Integers only. Whatever is asked of a card's memory is rounded down, so that what fits by memory fits by
            units, and the sum of what is granted never passes the card.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from gpustack_op.scheduling.manufacturers import MANUFACTURERS, Manufacturer, Manufacturers

CARD = 1_600_000
"""Units of one whole card, and its credits: 2^9 × 5^5, so that tenths, percents and halves down to 1/512 are whole."""

SHARES = 10
"""Tenants that one card takes in the shared family."""

SHARE = CARD // SHARES
PERCENT = CARD // 100
LARGEST_SLICING = 512

_MILLION = 10**6


def is_slicing(slices: int) -> bool:
    """Whether a card can be cut into that many equal slices: a power of two from 2 to 512."""
    return 2 <= slices <= LARGEST_SLICING and slices & (slices - 1) == 0


def percent_units(percent: int) -> int:
    return percent * PERCENT


def memory_units(mebibytes: int, card_mebibytes: int) -> int:
    """The share of a card that so much of its memory is. 0, which callers refuse, when the card's memory is unknown."""
    return mebibytes * CARD // card_mebibytes if card_mebibytes > 0 else 0


def card_credits(cards: int) -> int:
    return cards * CARD


def share_credits(cards: int) -> int:
    """One share on each of so many cards."""
    return cards * SHARE


def cards_of(amount: int | Fraction) -> Fraction:
    """So many credits as cards, in whole millionths, rounded down."""
    return Fraction(-(-amount // 1) * _MILLION // CARD, _MILLION)


def slices_of_cards(cards: Fraction, slices: int) -> Fraction:
    """So many cards as slices of 1/`slices`, rounded down."""
    return Fraction(cards * _MILLION // 1 * slices // _MILLION) if _divides(slices) else cards


def units_of_slices(amount: Fraction, slices: int) -> Fraction:
    return amount * CARD / slices if _divides(slices) else amount


def slices_of_units(units: Fraction, slices: int) -> Fraction:
    """The inverse of `units_of_slices`, in whole millionths, rounded down."""
    return Fraction(units * slices * _MILLION // CARD, _MILLION) if _divides(slices) else units


def transformations(manufacturers: Manufacturers = MANUFACTURERS) -> list[dict[str, Any]]:
    """How Kueue turns requests into credits: its configuration's `resources.transformations`."""
    return [rule for row in manufacturers.all() for rule in _transformations(row)]


def _transformations(row: Manufacturer) -> list[dict[str, Any]]:
    rules = [
        _replaced(row.base_resource, row, CARD),
        _replaced(row.shared, row, SHARE),
        _replaced(row.sliced_units, row, 1) | {"multiplyBy": row.sliced},
    ]
    return rules + ([_replaced(row.partitioned_units, row, 1)] if row.partition_kind else [])


def _replaced(resource: str, row: Manufacturer, factor: int) -> dict[str, Any]:
    return {"input": resource, "strategy": "Replace", "outputs": {row.credits: str(factor)}}


def _divides(slices: int) -> bool:
    return slices == 1 or is_slicing(slices)
