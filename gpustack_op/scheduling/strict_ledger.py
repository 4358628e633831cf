"""The ledger for decisions that cannot be taken back, such as destroying a partition.

Guarantees   The arithmetic of `ledger.rebuilt`, where everything that it passes over or tells beside is a `LedgerError`
             with a sentence: an inventory that is ambiguous, a record that cannot be read, claims more than there is,
             or does not fit the inventory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from gpustack_op.api.core import Pod
from gpustack_op.api.worker import Card, DeviceGroup
from gpustack_op.scheduling.claims import claim_of
from gpustack_op.scheduling.ledger import Ledger, rebuilt
from gpustack_op.scheduling.manufacturers import MANUFACTURERS, Manufacturers
from gpustack_op.scheduling.records import Entry, RecordError, strict_record_of


class LedgerError(ValueError):
    """An inventory or a record on which no decision may rest."""


def strictly_rebuilt(
    groups: Iterable[DeviceGroup], pods: Iterable[Pod], manufacturers: Manufacturers = MANUFACTURERS
) -> Ledger:
    inventory, members = list(groups), list(pods)
    _believe_inventory(inventory)
    homes = {card.id: (group, card) for group in inventory for card in group.accelerators or ()}
    for pod in members:
        _believe_record(pod, homes)
    ledger = rebuilt(inventory, map(claim_of, members), manufacturers)
    for left_out in (*ledger.conflicts, *ledger.unknown):
        raise LedgerError(left_out.sentence)
    return ledger


def _believe_inventory(groups: Sequence[DeviceGroup]) -> None:
    _believe_unique([f"{group.manufacturer}/{group.id}" if group.id else "" for group in groups], "group id")
    _believe_unique([card.id for group in groups for card in group.accelerators or ()], "card id")
    for group in groups:
        _believe_unique([str(card.index) for card in group.accelerators or ()], f"index in group {group.id}")


def _believe_unique(names: Sequence[str], what: str) -> None:
    if "" in names:
        raise LedgerError(f"the inventory has an empty {what}")
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise LedgerError(f"the inventory has the {what} {repeated[0]} twice")


def _believe_record(pod: Pod, homes: Mapping[str, tuple[DeviceGroup, Card]]) -> None:
    try:
        record = strict_record_of(pod)
    except RecordError as error:
        raise LedgerError(str(error)) from error
    for container, held in record.items():
        for entry in held.entries:
            if doubt := _misplaced(entry, homes):
                raise LedgerError(f"Pod {pod.namespace}/{pod.name}, container {container!r}: {doubt}")


def _misplaced(entry: Entry, homes: Mapping[str, tuple[DeviceGroup, Card]]) -> str:
    if entry.card not in homes:
        return f"card {entry.card} is not on this node"
    group, card = homes[entry.card]
    if (entry.manufacturer, entry.group) != (group.manufacturer, group.id):
        told = f"{entry.manufacturer}/{entry.group}"
        return f"card {entry.card} is recorded in group {told} and is in {group.manufacturer}/{group.id}"
    if entry.index != card.index:
        return f"card {entry.card} is recorded as number {entry.index} and is number {card.index}"
    return ""
