"""Tokens: the ids that the kubelet is offered and hands back.

Guarantees   `read` takes what `written` made and nothing else that could be mistaken for it. A card has as many tokens
             of a family as it can have holders, and their names never change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from gpustack_op.api.worker import Card, DeviceGroup
from gpustack_op.scheduling.credits import CARD, SHARE
from gpustack_op.scheduling.manufacturers import Family
from gpustack_op.scheduling.sliced_detail import partition_ceiling, slice_ceiling

VISIBILITY = 512
"""Tokens of a card that only make it visible: they cost nothing, and there must always be one left."""

PARTS = 3


class TokenError(ValueError):
    """An id that was never offered."""


@dataclass(frozen=True, slots=True)
class Token:
    group: str
    card: str
    index: int

    @property
    def written(self) -> str:
        return f"{self.group}:{self.card}:{self.index:04d}"


def read(text: str) -> Token:
    parts = text.split(":")
    if len(parts) != PARTS or not all(parts) or not (parts[2].isascii() and parts[2].isdigit()):
        raise TokenError(f'device id "{text}" is none of ours; ours read <group>:<card>:<number>')
    return Token(parts[0], parts[1], int(parts[2]))


def tokens_of(group: DeviceGroup, card: Card, family: Family) -> list[Token]:
    return [Token(group.id, card.id, index) for index in _indexes(card, family)]


def written_tokens(group: DeviceGroup, card: Card, family: Family) -> tuple[str, ...]:
    """The same as texts, made once: lists are told often, and their tokens never change."""
    return _texts(group.id, card.id, _indexes(card, family))


@lru_cache(maxsize=4096)
def _texts(group: str, card: str, indexes: range) -> tuple[str, ...]:
    return tuple(Token(group, card, index).written for index in indexes)


def by_card(tokens: Iterable[Token]) -> dict[str, list[Token]]:
    """In the order of the tokens."""
    found: dict[str, list[Token]] = {}
    for token in tokens:
        found.setdefault(token.card, []).append(token)
    return found


def cards_in(groups: Iterable[DeviceGroup], manufacturer: str) -> Iterator[tuple[DeviceGroup, Card]]:
    """The cards of one manufacturer, in their order."""
    for group in groups:
        if group.manufacturer == manufacturer:
            for card in group.accelerators or ():
                yield group, card


def _indexes(card: Card, family: Family) -> range:
    """Empty for a card that takes no part in the family. A partitioned card takes part in no other."""
    if family is Family.VISIBILITY:
        return range(VISIBILITY)
    if family is Family.PARTITIONED:
        return range(partition_ceiling(card))
    if partition_ceiling(card):
        return range(0)
    return {
        Family.EXCLUSIVE: range(1),
        Family.SHARED: range(0, CARD, SHARE),
        Family.SLICED: range(slice_ceiling(card)),
    }.get(family, range(0))
