"""From the raw readings of a node's cards to the groups of its Devices object.

Guarantees   Cards of one name and one recorded memory make one group; the order is canonical, so that the same
             hardware always gives the same object; a card without a memory figure is listed, but never sliceable.
Assumptions  The cards come in the driver's order, unreadable ones left out, sick ones included.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import msgspec

from gpustack_op.api.worker import (
    Card,
    CardStatus,
    CardTopology,
    DeviceGroup,
    LogicalSliced,
    PhysicalProfile,
    PhysicalSliced,
)
from gpustack_op.scheduling.accelerator_key import Product, group_ids
from gpustack_op.scheduling.card_facts import Capability, capability_text, cuda_version, family, recorded_memory
from gpustack_op.scheduling.manufacturers import MANUFACTURERS, Manufacturers
from gpustack_op.scheduling.sliced_detail import sliced_detail


@dataclass(frozen=True, slots=True, kw_only=True)
class RawCard:
    """One card as its driver describes it. None: the driver does not tell."""

    manufacturer: str
    uuid: str
    name: str = ""
    minor: int | None = None
    pci_bus_id: str = ""
    numa_affinity: str = ""
    cpu_affinity: str = ""
    memory_mib: int | None = None
    bus_width: int | None = None
    ecc_enabled: bool | None = None
    cores: int | None = None
    compute_capability: Capability | None = None
    mig_mode: bool = False
    profiles: tuple[PhysicalProfile, ...] = ()
    healthy: bool = True
    ailment: str = ""
    """Why it is not healthy, as the end of a sentence."""
    driver_version: str = ""
    cuda_driver_version: int = 0

    @property
    def product(self) -> Product:
        memory = recorded_memory(
            self.memory_mib or 0,
            bus_width=self.bus_width,
            ecc_enabled=self.ecc_enabled,
            capability=self.compute_capability,
        )
        return Product(self.manufacturer, self.name, memory)


def device_groups(
    cards: Iterable[RawCard], *, with_memory: bool = False, manufacturers: Manufacturers = MANUFACTURERS
) -> tuple[DeviceGroup, ...]:
    """The groups of one node's cards, see `accelerator_key` for their ids."""
    members = _by_product(cards)
    ids = group_ids(list(members), with_memory=with_memory)
    groups = [
        _group(product, given, indexed, manufacturers)
        for (product, indexed), given in zip(members.items(), ids, strict=True)
    ]
    return in_order(groups)


def in_order(groups: Iterable[DeviceGroup]) -> tuple[DeviceGroup, ...]:
    """By manufacturer, then by the first card; a group without cards comes last."""

    def position(group: DeviceGroup) -> tuple[str, bool, int, str]:
        indexes = [card.index for card in group.accelerators or ()]
        return group.manufacturer, not indexes, min(indexes, default=0), group.id

    return tuple(sorted(groups, key=position))


def groups_json(groups: Iterable[DeviceGroup]) -> list[dict[str, Any]]:
    """The groups as an apply request spells them: required fields always, unknown ones never."""
    return [
        {**_without_nulls(msgspec.to_builtins(group)), "memory": group.memory, "name": group.name} for group in groups
    ]


def _by_product(cards: Iterable[RawCard]) -> dict[Product, list[tuple[int, RawCard]]]:
    """Each card with its number among the cards of its manufacturer."""
    members: dict[Product, list[tuple[int, RawCard]]] = {}
    numbers: dict[str, count[int]] = {}
    for card in cards:
        index = next(numbers.setdefault(card.manufacturer, count()))
        members.setdefault(card.product, []).append((index, card))
    return members


def _group(
    product: Product, given: str, indexed: Sequence[tuple[int, RawCard]], manufacturers: Manufacturers
) -> DeviceGroup:
    first = indexed[0][1]
    cards = tuple(_card(index, raw, product, manufacturers) for index, raw in indexed)
    return DeviceGroup(
        id=given,
        manufacturer=product.manufacturer,
        name=product.name,
        memory=product.memory,
        cores=first.cores or 0,
        driver_version=first.driver_version,
        runtime_version=cuda_version(first.cuda_driver_version),
        compute_capability=capability_text(first.compute_capability),
        family=family(first.compute_capability),
        accelerators=cards,
        accelerator_sliced_detail=sliced_detail(cards),
    )


def _card(index: int, raw: RawCard, product: Product, manufacturers: Manufacturers) -> Card:
    return Card(
        id=raw.uuid,
        index=index,
        physical_indexes=None if raw.minor is None else (raw.minor,),
        topology=_topology(raw),
        status=CardStatus(
            unhealthy=not raw.healthy,
            logical_sliced=_logical(raw, product, manufacturers),
            physical_sliced=_physical(raw),
        ),
    )


def _topology(raw: RawCard) -> CardTopology | None:
    topology = CardTopology(pci_bus_id=raw.pci_bus_id, numa_affinity=raw.numa_affinity, cpu_affinity=raw.cpu_affinity)
    return None if topology == CardTopology() else topology


def _logical(raw: RawCard, product: Product, manufacturers: Manufacturers) -> LogicalSliced | None:
    row = manufacturers.get(raw.manufacturer)
    if row is None or not row.logical_slices or raw.mig_mode or not product.memory:
        return None
    return LogicalSliced(count=row.logical_slices, cores_percentage_overcommit=row.cores_overcommit)


def _physical(raw: RawCard) -> PhysicalSliced | None:
    if not (raw.mig_mode and raw.profiles):
        return None
    return PhysicalSliced(count=max(profile.count for profile in raw.profiles), profiles=raw.profiles)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_without_nulls(item) for item in value]
    return value
