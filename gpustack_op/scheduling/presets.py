"""CPU and RAM that come with one whole card, by product.

Guarantees   At most one row matches a product: names are compared token by token, so `a10` is no `a100`, and no row is
             the beginning of another. The table is checked when it is built; a bad one raises a `PresetError`.
Assumptions  Card memory decides only through words of the product's name, such as `80gb`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations

from gpustack_op.scheduling.manufacturers import MANUFACTURERS
from gpustack_op.scheduling.sanitise import slug

TIER_NAMES = ("fallback", "small", "medium", "large", "xlarge")
"""From least to most."""

Tokens = tuple[str, ...]

_SEPARATOR = re.compile(r"[-_.]")
_TOKEN = re.compile(r"[a-z0-9]+")
_CPU = re.compile(r"[1-9][0-9]*")
_RAM = re.compile(r"([1-9][0-9]*)Gi")
_INT32 = 2**31 - 1


class PresetError(ValueError):
    """The table contradicts itself."""


@dataclass(frozen=True, slots=True)
class Tier:
    """What one card comes with: whole cores, and RAM in Gi."""

    cpu: str
    ram: str


@dataclass(frozen=True, slots=True)
class Row:
    """Products whose names begin with `prefix`. The first refinement whose token occurs behind it overrides `tier`."""

    prefix: Tokens
    tier: str
    refinements: tuple[tuple[str, str], ...] = ()


class Presets:
    """A checked table."""

    __slots__ = ("_rows", "_strips", "_tiers")

    def __init__(
        self, tiers: Mapping[str, Tier], rows: Mapping[str, Sequence[Row]], strips: Sequence[Tokens] = ()
    ) -> None:
        _check_tiers(tiers)
        _check_strips(strips)
        for manufacturer, own in rows.items():
            _check_rows(manufacturer, own, strips)
        self._tiers, self._rows, self._strips = dict(tiers), dict(rows), tuple(strips)

    def tier(self, manufacturer: str, product: str) -> str:
        """The name of the product's tier; spaced and dashed spellings give the same."""
        tokens = self._stripped(_tokens(slug(product, prefix=manufacturer)))
        for row in self._rows.get(manufacturer, ()):
            if tokens[: len(row.prefix)] == row.prefix:
                rest = tokens[len(row.prefix) :]
                return next((tier for token, tier in row.refinements if token in rest), row.tier)
        return "fallback"

    def unit_resources(self, manufacturer: str, product: str) -> Tier:
        return self._tiers[self.tier(manufacturer, product)]

    def _stripped(self, tokens: Tokens) -> Tokens:
        """Without the brand names in front of the model."""
        for strip in self._strips:
            if tokens[: len(strip)] == strip:
                return self._stripped(tokens[len(strip) :])
        return tokens


def unit_resources(manufacturer: str, product: str) -> Tier:
    """What one card of the product comes with."""
    return PRESETS.unit_resources(manufacturer, product)


def _tokens(key: str) -> Tokens:
    return tuple(token for token in _SEPARATOR.split(key) if token)


# --- Checks -------------------------------------------------------------------------------------------------------


def _check_tiers(tiers: Mapping[str, Tier]) -> None:
    _demand(set(tiers) == set(TIER_NAMES), f"tiers must be exactly {', '.join(TIER_NAMES)}")
    _demand(tiers["fallback"] == Tier("4", "16Gi"), "tier fallback must be 4 / 16Gi")
    sizes = [_size(name, tiers[name]) for name in TIER_NAMES]
    for (before, after), name in zip(pairwise(sizes), TIER_NAMES[1:], strict=True):
        _demand(before[0] <= after[0] and before[1] <= after[1], f"tier {name} must not be smaller than the one before")
    _demand(sizes[0][0] < sizes[1][0] and sizes[0][1] < sizes[1][1], "tier small must be larger than fallback")


def _size(name: str, tier: Tier) -> tuple[int, int]:
    ram = _RAM.fullmatch(tier.ram)
    _demand(_CPU.fullmatch(tier.cpu) is not None, f"tier {name}: cpu {tier.cpu!r} must be a positive integer")
    if ram is None:
        raise PresetError(f"tier {name}: ram {tier.ram!r} must be a positive integer followed by Gi")
    _demand(max(int(tier.cpu), int(ram[1])) <= _INT32, f"tier {name}: figures must fit 32 bits")
    return int(tier.cpu), int(ram[1])


def _check_strips(strips: Sequence[Tokens]) -> None:
    for strip in strips:
        _check_tokens(strip)
    for shorter, longer in permutations(strips, 2):
        _demand(longer[: len(shorter)] != shorter, f"strip {shorter} begins strip {longer}")


def _check_rows(manufacturer: str, rows: Sequence[Row], strips: Sequence[Tokens]) -> None:
    _demand(manufacturer in MANUFACTURERS, f"manufacturer {manufacturer!r} is unknown")
    for row in rows:
        _check_row(manufacturer, row, strips)
    for shorter, longer in permutations(rows, 2):
        begins = longer.prefix[: len(shorter.prefix)] == shorter.prefix
        _demand(not begins, f"{manufacturer} {shorter.prefix} begins {longer.prefix}")


def _check_row(manufacturer: str, row: Row, strips: Sequence[Tokens]) -> None:
    _check_tokens(row.prefix)
    tokens = [token for token, _ in row.refinements]
    _check_tokens(tuple(tokens), may_be_empty=True)
    _demand(row.prefix[0] != manufacturer, f"{row.prefix} must not begin with its manufacturer")
    _demand(not any(row.prefix[: len(s)] == s for s in strips), f"{row.prefix} begins with a strip")
    _demand(len(set(tokens)) == len(tokens), f"{row.prefix}: a refinement is repeated")
    _demand(not set(tokens) & set(row.prefix), f"{row.prefix}: a refinement is part of the prefix")
    for tier in (row.tier, *(tier for _, tier in row.refinements)):
        _demand(tier in TIER_NAMES, f"{row.prefix}: tier {tier!r} is unknown")


def _check_tokens(tokens: Tokens, *, may_be_empty: bool = False) -> None:
    _demand(may_be_empty or bool(tokens), "a sequence needs at least one token")
    for token in tokens:
        _demand(_TOKEN.fullmatch(token) is not None, f"token {token!r} must be lower-case letters and digits")


def _demand(condition: bool, message: str) -> None:
    if not condition:
        raise PresetError(message)


# --- The table ----------------------------------------------------------------------------------------------------


def _rows(tier: str, *products: str, refinements: tuple[tuple[str, str], ...] = ()) -> Iterator[Row]:
    return (Row(_tokens(product), tier, refinements) for product in products)


_BY_MEMORY = (("80gb", "large"), ("40gb", "medium"))

PRESETS = Presets(
    tiers={
        "fallback": Tier("4", "16Gi"),
        "small": Tier("8", "32Gi"),
        "medium": Tier("8", "64Gi"),
        "large": Tier("12", "128Gi"),
        "xlarge": Tier("12", "192Gi"),
    },
    rows={
        "nvidia": [
            *_rows("xlarge", "b200", "b300", "gb200", "gb300", "h100", "h200", "h800", "gh200"),
            *_rows("large", "l40s"),
            *_rows("medium", "a100", "a800", refinements=_BY_MEMORY),
            *_rows("medium", "a10", "a10g", "l40", "rtx-4090", "rtx-5090"),
            *_rows("small", "v100", refinements=(("32gb", "medium"),)),
            *_rows("small", "gb10", "a30", "l4", "t4", "v100s", "rtx-pro-4500", "rtx-6000", "rtx-4000"),
            *_rows("small", "rtx-a6000", "rtx-a5000", "rtx-a4000", "rtx-3090"),
        ],
        "ascend": [
            *_rows("xlarge", "910-9362", "910-9372", "910-9381", "910-9382", "910-9391", "910-9392"),
            *_rows("medium", "310p", "310p1", "310p2", "310p3", "310p4", "310p5", "310p7"),
            *_rows("medium", "910b", "910b1", "910b2", "910b2c", "910b3", "910b4"),
        ],
        "amd": [
            *_rows("xlarge", "mi300x", "mi308x", "mi325x", "mi350x", "mi355x"),
            *_rows("large", "mi210"),
            *_rows("medium", "mi250", "mi250x"),
        ],
        "cambricon": [*_rows("medium", "mlu370", "mlu590")],
        "hygon": [
            *_rows("xlarge", "bw1000"),
            *_rows("large", "k100", "bw100"),
            *_rows("small", "z100", "z100l"),
        ],
        "metax": [*_rows("large", "mxc550", "mxc588", "mxc600"), *_rows("medium", "mxc500")],
        "mthreads": [*_rows("medium", "mtt-s4000", "mtt-s5000")],
        "iluvatar": [*_rows("medium", "bi-v100", "bi-v150", "mr-v50", "mr-v100")],
        "thead": [*_rows("medium", "ppu-zw810e", "ppu-zwm890")],
    },
    strips=[("tesla",), ("geforce",), ("quadro",), ("radeon",), ("instinct",)],
)
"""The table in force."""
