"""Kubernetes quantities: `500m`, `2`, `1.5Gi`, `1e3`.

Guarantees   Exactly the documented grammar is accepted, in ASCII; values are whole nano-units in an unbounded integer,
             so that nothing overflows or is rounded; equality, order and hash go by value (`2048Mi` is `2Gi`); the
             written form is kept and is what `str()` and serialisation give.
Assumptions  As in the API server, what is finer than a nano is rounded away from zero: asking for a little is not
             asking for nothing.
Limits       Texts over 1,000 characters and exponents beyond ±1,000 are refused, so that a hostile object cannot cost
             memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, total_ordering
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema

NANO: Final = 10**9
LONGEST_TEXT: Final = 1000
LARGEST_EXPONENT: Final = 1000

QUANTITY_RULE: Final = "type(self) == int || (isQuantity(self) && self.matches('^[+-]?[.]?[0-9]'))"
"""What a schema demands of a quantity field, in CEL. isQuantity alone would take a lone sign, dot or suffix for 0."""

Form = Literal["decimal", "exponent", "binary"]
"""The family of suffixes a quantity was written with; Kubernetes prints a quantity in the family it was written in."""

_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

_GRAMMAR: Final = re.compile(
    r"(?P<sign>[+-]?)"
    r"(?:(?P<whole>[0-9]+)(?:\.(?P<fraction>[0-9]*))?|\.(?P<only_fraction>[0-9]+))"
    r"(?:(?P<binary>[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]+)|(?P<decimal>[numkMGTPE]?))"
)


class QuantityError(ValueError):
    """A text that is no Kubernetes quantity."""


@total_ordering
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Quantity:
    """An amount as Kubernetes writes it. Made by `parse` and `of`."""

    nanos: int
    text: str
    form: Form = "decimal"

    @staticmethod
    def parse(text: str | int | float) -> Quantity:
        """Reads what a quantity field may hold; anything else, a float or a boolean included, is a QuantityError."""
        if isinstance(text, bool) or not isinstance(text, str | int):
            raise QuantityError(f'{_shown(text)} is no quantity; write a whole number or a quoted text such as "500m"')
        return _parse(text) if isinstance(text, str) else Quantity(text * NANO, str(text))

    @staticmethod
    def of(value: int | Fraction, *, binary: bool = False) -> Quantity:
        """The quantity of that value, written canonically, with `Ki`, `Mi` … when `binary`."""
        return _computed(_ceil_nanos(Fraction(value)), "binary" if binary else "decimal")

    @property
    def value(self) -> Fraction:
        return Fraction(self.nanos, NANO)

    def canonical(self) -> str:
        """As Kubernetes prints it: the largest suffix of the written family that leaves a whole number."""
        return _canonical(self.nanos, self.form)

    def ceil(self) -> int:
        return -(-self.nanos // NANO)

    def __int__(self) -> int:
        """Rounded down."""
        return self.nanos // NANO

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Quantity({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return self.nanos == other.nanos if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos if isinstance(other, Quantity) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __add__(self, other: Quantity) -> Quantity:
        if not isinstance(other, Quantity):
            return NotImplemented
        return _computed(self.nanos + other.nanos, self.form if self.nanos else other.form)

    def __sub__(self, other: Quantity) -> Quantity:
        return self + -other if isinstance(other, Quantity) else NotImplemented

    def __mul__(self, times: int) -> Quantity:
        if isinstance(times, bool) or not isinstance(times, int):
            return NotImplemented
        return _computed(self.nanos * times, self.form)

    __rmul__ = __mul__

    def __neg__(self) -> Quantity:
        return _computed(-self.nanos, self.form)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        # Imported here: programs that only compute with quantities need no pydantic.
        from pydantic_core import core_schema  # noqa: PLC0415

        return core_schema.no_info_plain_validator_function(
            lambda given: given if isinstance(given, Quantity) else Quantity.parse(given),
            serialization=core_schema.plain_serializer_function_ser_schema(str),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {
            "x-kubernetes-int-or-string": True,
            "x-kubernetes-validations": [
                {"rule": QUANTITY_RULE, "message": "must be a quantity, such as 500m, 2 or 1.5Gi"}
            ],
        }


@lru_cache(maxsize=4096)
def _parse(text: str) -> Quantity:
    matched = _GRAMMAR.fullmatch(text) if len(text) <= LONGEST_TEXT else None
    if matched is None:
        raise QuantityError(f"{_shown(text)} is no quantity; write a number such as 500m, 2, 1.5Gi or 1e3")
    exponent = int(matched["exponent"] or 0)
    if abs(exponent) > LARGEST_EXPONENT:
        raise QuantityError(f"{_shown(text)} is out of range; the exponent may be at most {LARGEST_EXPONENT}")
    fraction = matched["fraction"] or matched["only_fraction"] or ""
    digits = Fraction(int((matched["whole"] or "") + fraction), 10 ** len(fraction))
    nanos = _ceil_nanos(digits * _factor(matched, exponent))
    return Quantity(-nanos if matched["sign"] == "-" else nanos, text, _form(matched))


def _factor(matched: re.Match[str], exponent: int) -> Fraction:
    if matched["binary"]:
        return Fraction(2 ** _BINARY[matched["binary"]])
    return Fraction(10) ** (exponent if matched["exponent"] else _DECIMAL[matched["decimal"]])


def _form(matched: re.Match[str]) -> Form:
    if matched["binary"]:
        return "binary"
    return "exponent" if matched["exponent"] else "decimal"


def _ceil_nanos(value: Fraction) -> int:
    """Whole nano-units, rounded away from zero."""
    nanos = abs(value) * NANO
    whole = -(-nanos.numerator // nanos.denominator)
    return whole if value >= 0 else -whole


def _computed(nanos: int, form: Form) -> Quantity:
    return Quantity(nanos, _canonical(nanos, form), form)


def _canonical(nanos: int, form: Form) -> str:
    if nanos == 0:
        return "0"
    whole, rest = divmod(nanos, NANO)
    if form == "binary" and rest == 0 and abs(whole) >= 1024:
        return _canonical_binary(whole)
    return _canonical_decimal(nanos, exponent_form=form == "exponent")


def _canonical_binary(whole: int) -> str:
    suffix = ""
    for larger in _BINARY:
        if whole % 1024:
            break
        whole, suffix = whole // 1024, larger
    return f"{whole}{suffix}"


def _canonical_decimal(nanos: int, *, exponent_form: bool) -> str:
    """Exponents are multiples of three, in steps of a suffix; above `E` the number itself grows."""
    exponent = -9
    while nanos % 1000 == 0 and (exponent_form or exponent < 18):
        nanos, exponent = nanos // 1000, exponent + 3
    if exponent_form:
        return f"{nanos}e{exponent}" if exponent else str(nanos)
    return f"{nanos}{_DECIMAL_SUFFIX[exponent]}"


def _shown(text: object) -> str:
    """The offending value in quotes, shortened, with line breaks and the like made visible."""
    shown = repr(text) if isinstance(text, str) else str(text)
    return shown if len(shown) <= 60 else f"{shown[:57]}…"
