"""Which tokens the kubelet may hand out now.

Guarantees   A token that a container holds is healthy, whatever became of its card: the scheduler would subtract it
             twice otherwise, and the kubelet would not restart its container. Tokens are never left out for being held;
             only a card that is gone, or serves other families now, has none. The same state gives the same list.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from gpustack_op.agent.plugin.tokens import cards_in, written_tokens
from gpustack_op.api.worker import Card, DeviceGroup
from gpustack_op.scheduling.claims import PodClaim, charged
from gpustack_op.scheduling.ledger import Ledger
from gpustack_op.scheduling.manufacturers import Family
from gpustack_op.scheduling.partition_view import healthy_tokens, partition_room
from gpustack_op.scheduling.sliced_detail import partition_ceiling
from gpustack_op.scheduling.views import Account


@dataclass(frozen=True, slots=True)
class Listed:
    """One token as the kubelet is told of it. `numa` is None where the card belongs to no node or to several."""

    id: str
    healthy: bool
    numa: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What is on the node's cards: the claims, with reservations over them, and their ledger.

    `withheld` are cards of which the kubelet says something else than our records.
    """

    groups: Sequence[DeviceGroup]
    claims: Sequence[PodClaim]
    ledger: Ledger
    withheld: Collection[str] = ()


def listed(standing: Standing, manufacturer: str, family: Family) -> tuple[Listed, ...]:
    """The whole list of one manufacturer and family."""
    if family is Family.PARTITIONED:
        return _partitioned(standing, manufacturer)
    held = held_tokens(standing.claims, family)
    others = set(_held_otherwise(standing, family)) if family is not Family.VISIBILITY else set()
    found: list[Listed] = []
    for group, card in cards_in(standing.groups, manufacturer):
        is_well, numa = not (card.status.unhealthy or card.id in others), _numa(card)
        found += (Listed(text, is_well or text in held, numa) for text in written_tokens(group, card, family))
    return tuple(found)


def held_tokens(claims: Iterable[PodClaim], family: Family) -> frozenset[str]:
    """What containers hold of one family; those that have ended hold nothing more."""
    return frozenset(
        token
        for claim in claims
        if not claim.finished
        for held in claim.record.values()
        if any(entry.mode is family for entry in held.entries)
        for token in held.device_ids
    )


def _held_otherwise(standing: Standing, family: Family) -> Iterator[str]:
    yield from standing.withheld
    yield from standing.ledger.disputed
    for claim in standing.claims:
        for _container, entry in charged(claim):
            if entry.mode is not family:
                yield entry.card


def _partitioned(standing: Standing, manufacturer: str) -> tuple[Listed, ...]:
    """Any token stands for any card: what counts is how many partitions the node can still hold."""
    cards = [(group, card) for group, card in cards_in(standing.groups, manufacturer) if partition_ceiling(card)]
    rows = standing.ledger.rows
    off = {*standing.withheld, *standing.ledger.disputed}
    room = partition_room(Account(card, rows.get(card.id)) for _group, card in cards if card.id not in off)
    texts = [text for group, card in cards for text in written_tokens(group, card, Family.PARTITIONED)]
    healthy = healthy_tokens(texts, held_tokens(standing.claims, Family.PARTITIONED), room)
    return tuple(Listed(text, text in healthy) for text in texts)


def _numa(card: Card) -> int | None:
    told = card.topology.numa_affinity if card.topology else ""
    return int(told) if told.isascii() and told.isdigit() else None
