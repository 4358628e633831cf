"""How much of a pool's accelerators is there and free, seen as whole cards, shares, slices and partitions.

Guarantees   Four views of the same cards, from the capability in Devices' spec and the ledger in its status, joined by
             card id. Capacity counts cards whatever they are used for and however they are; a sick card, one without an
             account and one that the spec no longer lists leave `remaining` and `once` at once.
Assumptions  One Devices object is one node. A card in one mode has nothing to give in another until it is wholly free.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gpustack_op.api.worker import Card, Devices, LedgerRow
from gpustack_op.scheduling.accelerator_key import accelerator_key
from gpustack_op.scheduling.credits import CARD, PERCENT, SHARE, SHARES
from gpustack_op.scheduling.manufacturers import Family
from gpustack_op.scheduling.sliced_detail import partition_ceiling, slice_ceiling


@dataclass(frozen=True, slots=True)
class View:
    """`once` is the most that a single request can be given now."""

    once: int = 0
    remaining: int = 0
    capacity: int = 0


@dataclass(frozen=True, slots=True)
class Account:
    """One card: what it can do and what of it is in use. Either side may be missing."""

    card: Card | None
    row: LedgerRow | None

    @property
    def usable(self) -> bool:
        return self.card is not None and not self.card.status.unhealthy and self.row is not None

    @property
    def partition_ceiling(self) -> int:
        return partition_ceiling(self.card) if self.card else 0

    @property
    def slice_ceiling(self) -> int:
        return slice_ceiling(self.card) if self.card else 0

    def units(self, *modes: Family) -> int:
        """Free units that can be given out in one of these modes."""
        if self.row is None or not self.usable:
            return 0
        return max(0, self.row.remaining) if self.row.mode in modes or self.row.remaining >= CARD else 0


NOTHING = View()

Node = Sequence[Account]
"""The accounts of one node's cards."""


def accounts(devices: Iterable[Devices], key: str) -> list[Node]:
    """The cards of one accelerator key, node by node."""
    return [tuple(_joined(node, key)) for node in devices]


def exclusive_view(nodes: Sequence[Node]) -> View:
    """Whole cards; one request takes them from one node."""
    free = [sum(account.units() >= CARD for account in _whole(node)) for node in nodes]
    return View(max(free, default=0), sum(free), sum(len(_whole(node)) for node in nodes))


def shared_view(nodes: Sequence[Node]) -> View:
    """Shares, of which a card has ten. One request takes one share on each of several cards of one node."""
    shares = [[account.units(Family.SHARED) // SHARE for account in _whole(node)] for node in nodes]
    once = max((sum(free > 0 for free in node) for node in shares), default=0)
    return View(once, sum(map(sum, shares)), sum(len(node) for node in shares) * SHARES)


def sliced_view(nodes: Sequence[Node]) -> View:
    """Percents of a card's memory. One request takes them from one card."""
    sliceable = [account for node in nodes for account in _whole(node) if account.slice_ceiling]
    free = [account.units(Family.SLICED) // PERCENT for account in sliceable]
    return View(max(free, default=0), sum(free), len(sliceable) * 100)


def _whole(node: Node) -> list[Account]:
    """The cards that are in no partitioning mode."""
    return [account for account in node if not account.partition_ceiling]


def _joined(devices: Devices, key: str) -> Iterator[Account]:
    groups = [g for g in devices.spec.groups or () if accelerator_key(g.manufacturer, g.id) == key]
    ledgers = [g for g in devices.status.groups or () if accelerator_key(g.manufacturer, g.id) == key]
    cards = {card.id: card for group in groups for card in group.accelerators or ()}
    rows = {row.id: row for ledger in ledgers for row in ledger.accelerators or ()}
    return (Account(cards.get(card_id), rows.get(card_id)) for card_id in dict.fromkeys([*cards, *rows]))
