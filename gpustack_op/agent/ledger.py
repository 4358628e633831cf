"""Keeps one account for each card of the report: what a known card has on it stays, a new card is free.

Accounts follow the card's id, so that neither a regrouping nor a new index loses what is charged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from gpustack_op.api.worker import DeviceGroup, Devices, LedgerGroup, LedgerRow
from gpustack_op.scheduling.credits import CARD
from gpustack_op.scheduling.ledger import fresh_ledger
from gpustack_op.scheduling.manufacturers import Family

Rows = Mapping[str, LedgerRow]
"""By the card's id."""


def rows_of(devices: Devices | None) -> dict[str, LedgerRow]:
    groups = (devices.status.groups or ()) if devices else ()
    return {row.id: row for group in groups for row in group.accelerators or ()}


def charged(rows: Rows) -> frozenset[str]:
    """The cards that are not wholly free."""
    return frozenset(card for card, row in rows.items() if row.mode != Family.NONE or row.remaining != CARD)


def kept_ledger(groups: Iterable[DeviceGroup], rows: Rows) -> list[dict[str, Any]]:
    """The `status.groups` of these cards."""
    ledger = fresh_ledger(groups)
    for group in ledger:
        group["accelerators"] = [_kept(free, rows.get(free["id"])) for free in group["accelerators"]]
    return ledger


def ledger_json(groups: Iterable[LedgerGroup]) -> list[dict[str, Any]]:
    """Accounts as an apply request spells them."""
    return [
        {
            "id": group.id,
            "manufacturer": group.manufacturer,
            "accelerators": [_row_json(row) for row in group.accelerators or ()],
        }
        for group in groups
    ]


def _kept(free: dict[str, Any], row: LedgerRow | None) -> dict[str, Any]:
    return {**_row_json(row), "index": free["index"]} if row else free


def _row_json(row: LedgerRow) -> dict[str, Any]:
    """Amounts of zero are left out, but for those that the reader expects."""
    stated = {key: value for key, value in msgspec.to_builtins(row).items() if value}
    return {**stated, "id": row.id, "index": row.index, "mode": row.mode}
