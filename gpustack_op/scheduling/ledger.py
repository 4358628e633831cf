"""The account of a node's cards as its Devices object publishes it, as far as whole cards go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpustack_op.api.worker import Card, DeviceGroup
from gpustack_op.scheduling.credits import CARD
from gpustack_op.scheduling.manufacturers import Family


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
