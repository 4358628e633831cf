"""What the nodes of one pool say of their cards, gathered for whoever describes the pool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpustack_op.api.worker import Card, DeviceGroup, Devices
from gpustack_op.scheduling import labels
from gpustack_op.scheduling.accelerator_key import accelerator_key
from gpustack_op.scheduling.sliced_detail import partition_ceiling, slice_ceiling


def pool_groups(devices: Iterable[Devices], pool_labels: Mapping[str, str], key: str) -> list[DeviceGroup]:
    """The groups of one accelerator key on the nodes that a pool's labels select."""
    selector = labels.devices_selector(pool_labels)
    return [
        group
        for node in devices
        if labels.selects(selector, node.labels)
        for group in node.spec.groups or ()
        if accelerator_key(group.manufacturer, group.id) == key
    ]


def cards_of(groups: Iterable[DeviceGroup]) -> list[Card]:
    return [card for group in groups for card in group.accelerators or ()]


def is_sliceable(card: Card) -> bool:
    """Whether one card can serve several tenants by slices, in software or in hardware."""
    return bool(slice_ceiling(card) or partition_ceiling(card))
