"""Amounts as people read them: one whole unit, the remainder rounded away.

The text is lossy on purpose (`24Gi` for 24,563 MiB). Requests in MiB are turned into units with the rounded figure,
since it is the only one that everybody sees: the webhook, the node's capacity and the agent then agree to the unit.
"""

from __future__ import annotations

from fractions import Fraction

from gpustack_op.api.quantity import Quantity

MEBIBYTE = 1 << 20
GIBIBYTE_IN_MIB = 1024

_BINARY = tuple(
    (1 << 10 * power, unit) for power, unit in ((6, "Ei"), (5, "Pi"), (4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki"))
)
_DECIMAL = tuple(
    (10 ** (3 * power), unit) for power, unit in ((6, "E"), (5, "P"), (4, "T"), (3, "G"), (2, "M"), (1, "k"))
)


def binary_text(amount: int | Fraction) -> str:
    """`24Gi`: the largest binary unit that fits, half rounded up. A fraction is first rounded up to a whole number."""
    return _text(amount, _BINARY)


def decimal_text(amount: int | Fraction) -> str:
    """`17G`: the same with decimal units."""
    return _text(amount, _DECIMAL)


def mebibytes_text(mebibytes: int) -> str:
    return binary_text(mebibytes * MEBIBYTE)


def published_mebibytes(mebibytes: int) -> int:
    """The memory of a card as its pool tells it: 24,576 MiB for a card of 24,563."""
    return int(Quantity.parse(mebibytes_text(mebibytes))) // MEBIBYTE


def short_text(mebibytes: int) -> str:
    """`43g`: the form that tells apart two memory sizes of one product in a key. Never less than `1g`, but for 0."""
    if mebibytes <= 0:
        return "0g"
    if mebibytes < GIBIBYTE_IN_MIB:
        return "1g"
    return mebibytes_text(mebibytes).lower().removesuffix("i")


def percent_of(amount: int, percent: int) -> int:
    """Floored, but at least 1 of a positive amount; percent is held within 0..100."""
    if amount <= 0:
        return 0
    return max(1, amount * min(max(percent, 0), 100) // 100)


def divided(amount: int, divisor: int) -> int:
    """Floored; a divisor of 1 or less changes nothing."""
    return amount // divisor if divisor > 1 else amount


def _text(amount: int | Fraction, units: tuple[tuple[int, str], ...]) -> str:
    whole = -(-amount // 1)
    magnitude = abs(whole)
    sign = "-" if whole < 0 else ""
    for size, unit in units:
        if magnitude >= size:
            return f"{sign}{(2 * magnitude + size) // (2 * size)}{unit}"
    return f"{sign}{magnitude}"
