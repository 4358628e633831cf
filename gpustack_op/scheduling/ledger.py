"""The account of a node's cards: what is in use on each, computed whole from the Pods' records, never counted on.

Guarantees   The same cards and claims give the same ledger, in whatever order they come. No row goes below zero, and
             unless records claim more than there is, what remains and what is charged add up to the card. A claim on a
             card that is used in another way, or that is not there, is not charged but told (`conflicts`, `unknown`);
             everything else of that Pod is.
Assumptions  A card is known by its id alone: it may have changed its group or its index since it was recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpustack_op.api.worker import Card, DeviceGroup, LedgerGroup, LedgerRow, Placement, ProfileCount
from gpustack_op.scheduling.claims import PodClaim, charged
from gpustack_op.scheduling.credits import CARD
from gpustack_op.scheduling.manufacturers import MANUFACTURERS, Family, Manufacturers
from gpustack_op.scheduling.placements import remaining_profiles
from gpustack_op.scheduling.records import Entry
from gpustack_op.scheduling.sliced_detail import partition_ceiling, profiles_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncharged:
    """A claim that was left out, and why."""

    namespace: str
    pod: str
    container: str
    entry: Entry
    reason: str

    @property
    def sentence(self) -> str:
        return (
            f"Pod {self.namespace}/{self.pod}, container {self.container}: card {self.entry.card} is recorded as "
            f"{self.entry.mode.name.lower()}, but {self.reason}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """`groups` is the status of Devices; `occupied` are the intervals of memory slices in use, by card."""

    groups: tuple[LedgerGroup, ...]
    conflicts: tuple[Uncharged, ...] = ()
    unknown: tuple[Uncharged, ...] = ()
    occupied: Mapping[str, tuple[Placement, ...]]

    @property
    def rows(self) -> dict[str, LedgerRow]:
        """By card."""
        return {row.id: row for group in self.groups for row in group.accelerators or ()}

    @property
    def disputed(self) -> frozenset[str]:
        """Cards that are recorded in two ways at once and give nothing until one of them is gone."""
        return frozenset(conflict.entry.card for conflict in self.conflicts)


def rebuilt(
    groups: Iterable[DeviceGroup], claims: Iterable[PodClaim], manufacturers: Manufacturers = MANUFACTURERS
) -> Ledger:
    """The ledger of these cards under these claims. The older of two Pods that disagree is believed."""
    inventory = list(groups)
    accounts = {card.id: _Account(card) for group in inventory for card in group.accelerators or ()}
    conflicts: list[Uncharged] = []
    unknown: list[Uncharged] = []
    for claim in sorted(claims, key=lambda claim: (claim.created, claim.namespace, claim.name, claim.uid)):
        for container, entry in charged(claim, manufacturers):
            account = accounts.get(entry.card)
            doubt = account.doubt(entry) if account else "the node has no such card"
            if account and not doubt:
                account.charge(entry)
            else:
                left_out = Uncharged(
                    namespace=claim.namespace, pod=claim.name, container=container, entry=entry, reason=doubt
                )
                (conflicts if account and account.is_disputed_by(entry) else unknown).append(left_out)
    return Ledger(
        groups=tuple(_group(group, accounts) for group in inventory),
        conflicts=tuple(conflicts),
        unknown=tuple(unknown),
        occupied={card: tuple(account.occupied) for card, account in accounts.items() if account.occupied},
    )


def drifted(stored: Iterable[LedgerGroup], ledger: Ledger) -> tuple[str, ...]:
    """The cards of which the stored account differs from this ledger, or of which only one of the two knows."""
    before = {row.id: row for group in stored for row in group.accelerators or ()}
    after = ledger.rows
    return tuple(sorted(card for card in {*before, *after} if before.get(card) != after.get(card)))


def fresh_ledger(groups: Iterable[DeviceGroup]) -> list[dict[str, Any]]:
    """The `status.groups` of cards on which nothing runs."""
    return [
        {
            "id": group.id,
            "manufacturer": group.manufacturer,
            "accelerators": [_free(card) for card in group.accelerators or ()],
        }
        for group in groups
    ]


def _free(card: Card) -> dict[str, Any]:
    return {"id": card.id, "index": card.index, "mode": int(Family.NONE), "remaining": CARD}


@dataclass(slots=True)
class _Account:
    card: Card
    mode: Family = Family.NONE
    remaining: int = CARD
    slices: int = 0
    profiles: Counter[str] = field(default_factory=Counter)
    occupied: list[Placement] = field(default_factory=list)

    def is_disputed_by(self, entry: Entry) -> bool:
        return self.mode not in {Family.NONE, entry.mode}

    def doubt(self, entry: Entry) -> str:
        """Why this entry cannot be charged; empty when it can."""
        if self.is_disputed_by(entry):
            return f"an older Pod has it as {self.mode.name.lower()}"
        if entry.is_partition and not partition_ceiling(self.card):
            return "the card is no longer in a partitioning mode"
        return ""

    def charge(self, entry: Entry) -> None:
        self.mode = entry.mode
        self.remaining = max(self.remaining - entry.allocated, 0)
        self.slices += entry.mode is Family.SLICED
        if entry.is_partition:
            self.profiles[entry.profile] += 1
            self.occupied = sorted([*self.occupied, *entry.placements], key=lambda place: (place.start, place.length))

    def row(self) -> LedgerRow:
        left = remaining_profiles(profiles_of(self.card), self.occupied)
        return LedgerRow(
            id=self.card.id,
            index=self.card.index,
            mode=int(self.mode),
            remaining=self.remaining,
            allocated_slices=self.slices,
            allocated_profiles=_counts(self.profiles),
            remaining_profiles=_counts(left),
        )


def _counts(counts: Mapping[str, int]) -> tuple[ProfileCount, ...] | None:
    return tuple(ProfileCount(name=name, count=count) for name, count in sorted(counts.items())) or None


def _group(group: DeviceGroup, accounts: Mapping[str, _Account]) -> LedgerGroup:
    rows = tuple(accounts[card.id].row() for card in group.accelerators or ())
    return LedgerGroup(id=group.id, manufacturer=group.manufacturer, accelerators=rows)
