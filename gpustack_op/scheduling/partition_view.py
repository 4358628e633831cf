"""How many hardware partitions a pool has and can still make.

Guarantees   Profiles of one card compete for its room: a card counts by its best profile, never by their sum. A card
             whose ledger does not tell yet counts as empty; a sick card keeps its place in capacity and gives nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpustack_op.api.worker import ProfileCount
from gpustack_op.scheduling.sliced_detail import profiles_of
from gpustack_op.scheduling.views import NOTHING, Account, Node, View

Counts = tuple[tuple[str, int], ...]
"""Profile names and counts, sorted by name."""


@dataclass(frozen=True, slots=True)
class PartitionView:
    """The view, and its ledger by profile: every profile on offer with what is free, those in use with how many."""

    view: View = NOTHING
    allocated: Counts = ()
    remaining: Counts = ()


NO_PARTITIONS = PartitionView()


def partition_view(nodes: Sequence[Node]) -> PartitionView:
    cards = [account for node in nodes for account in node if account.partition_ceiling]
    best = [_best(account) for account in cards]
    return PartitionView(
        view=View(int(any(best)), sum(best), sum(account.partition_ceiling for account in cards)),
        allocated=_sorted(+_sum(_allocated(account) for account in cards)),
        remaining=_sorted(_sum(_remaining(account) for account in cards)),
    )


def partition_room(cards: Iterable[Account]) -> int:
    """The most partitions that healthy cards can hold at once, counting those they hold."""
    healthy = [account for account in cards if account.partition_ceiling and not _is_sick(account)]
    return sum(_allocated(account).total() + _best(account) for account in healthy)


def healthy_tokens(tokens: Iterable[str], held: Iterable[str], room: int) -> frozenset[str]:
    """Of a node's partition tokens: those that containers hold, then the first others until the room is used up."""
    taken = frozenset(held)
    others = [token for token in tokens if token not in taken]
    return taken | frozenset(others[: max(room - len(taken), 0)])


def _best(account: Account) -> int:
    """Partitions of the profile of which the card takes most."""
    if _is_sick(account):
        return 0
    told = _told_remaining(account)
    return account.partition_ceiling if told is None else max(told.values(), default=0)


def _remaining(account: Account) -> Counter[str]:
    """Every profile of the card, also at 0."""
    offered = Counter({profile.name: profile.count for profile in profiles_of(account.card)} if account.card else {})
    nothing = Counter(dict.fromkeys(offered, 0))
    if _is_sick(account):
        return nothing
    told = _told_remaining(account)
    return offered if told is None else Counter({**nothing, **told})


def _allocated(account: Account) -> Counter[str]:
    return _told(account.row.allocated_profiles) if account.row else Counter()


def _is_sick(account: Account) -> bool:
    return account.card is None or account.card.status.unhealthy


def _told_remaining(account: Account) -> Counter[str] | None:
    """What the ledger says is free; None when it has no entry for any profile, not even one of 0."""
    row = account.row
    if row is None or not (row.allocated_profiles or row.remaining_profiles):
        return None
    return _told(row.remaining_profiles)


def _told(counts: Iterable[ProfileCount] | None) -> Counter[str]:
    return Counter({entry.name: max(0, entry.count) for entry in counts or ()})


def _sum(counters: Iterable[Counter[str]]) -> Counter[str]:
    """Like `sum`, but a profile at 0 stays."""
    total: Counter[str] = Counter()
    for counter in counters:
        total.update(counter)
    return total


def _sorted(counter: Counter[str]) -> Counts:
    return tuple(sorted(counter.items()))
