"""Labels of a Node that say what one card of it can still take: the room that a sum over cards does not show.

Promises  A label is there as long as the node has a card that takes part, with 0 when all are full or sick; it is never
          an illegal key. Nothing is charged or limited by these figures: they only narrow where a Workload is tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpustack_op.api.worker import Devices
from gpustack_op.scheduling.accelerator_key import accelerator_key
from gpustack_op.scheduling.credits import SHARE
from gpustack_op.scheduling.manufacturers import Family
from gpustack_op.scheduling.sanitise import label_value
from gpustack_op.scheduling.views import Account, accounts

SLICED_UNITS = "sliced-max-free-units.fit.gpustack.ai/"
SHARED_CARDS = "shared-free-cards.fit.gpustack.ai/"
_PREFIXES = (SLICED_UNITS, SHARED_CARDS)


def sliced_units_label(accelerator_key: str) -> str:
    """Key of the most units that a slice can get from one card."""
    return SLICED_UNITS + accelerator_key


def shared_cards_label(accelerator_key: str) -> str:
    """Key of the number of cards with a free share."""
    return SHARED_CARDS + accelerator_key


def is_fit_label(key: str) -> bool:
    return key.startswith(_PREFIXES)


def without_fit_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """What a watcher of Nodes that does not care for fit compares."""
    return {key: value for key, value in labels.items() if not is_fit_label(key)}


def fit_labels(devices: Devices) -> dict[str, str]:
    """All fit labels of a managed node with these cards; the others of that kind have to go."""
    keys = dict.fromkeys(accelerator_key(group.manufacturer, group.id) for group in devices.spec.groups or ())
    found: dict[str, str] = {}
    for key in keys:
        if key and label_value(key) == key:
            cards = [account for account in accounts([devices], key)[0] if account.card]
            found |= _sliced(key, cards) | _shared(key, cards)
    return found


def _sliced(key: str, cards: Iterable[Account]) -> dict[str, str]:
    free = [_free_units(card) for card in cards if card.slice_ceiling]
    return {sliced_units_label(key): str(max(free))} if free else {}


def _shared(key: str, cards: Iterable[Account]) -> dict[str, str]:
    free = [card.units(Family.SHARED) >= SHARE for card in cards if not card.partition_ceiling]
    return {shared_cards_label(key): str(sum(free))} if free else {}


def _free_units(card: Account) -> int:
    is_full = card.row is not None and card.row.allocated_slices >= card.slice_ceiling
    return 0 if is_full else card.units(Family.SLICED)
