"""The record of what a Pod was given: an annotation of that Pod, and the only durable trace of an allocation.

Guarantees   `read` gives the record or a `RecordError` that names the annotation; what it gives can be charged without
             further thought: modes are real ones and no amount is negative. `written` spells equal records equally,
             and `read` reads it back.
Assumptions  Only the node's agent writes the annotation. Two containers on one card are two entries, both charged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Any

import msgspec

from gpustack_op.api.core import Pod
from gpustack_op.api.worker import Placement
from gpustack_op.scheduling import labels
from gpustack_op.scheduling.credits import CARD, SHARE
from gpustack_op.scheduling.manufacturers import Family


class RecordError(ValueError):
    """A record that cannot be read, or not be believed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What one container holds of one card. The last three fields are set for a hardware partition only."""

    manufacturer: str
    group: str
    card: str
    index: int = 0
    mode: Family
    allocated: int = 0
    """In units."""
    profile: str = ""
    placements: tuple[Placement, ...] = ()
    partition_id: str = ""

    @property
    def is_partition(self) -> bool:
        return bool(self.profile and self.placements)


@dataclass(frozen=True, slots=True)
class ContainerRecord:
    """`device_ids` are those the kubelet chose; a partition's do not name the card that is used."""

    entries: tuple[Entry, ...] = ()
    device_ids: tuple[str, ...] = ()


Record = Mapping[str, ContainerRecord]
"""By container."""

NO_RECORD: Record = {}


def read(text: str) -> Record:
    try:
        containers = _decoder.decode(text)
        return {name: _container(stored) for name, stored in containers.items()}
    except (msgspec.DecodeError, ValueError) as error:
        raise RecordError(f"annotation {labels.ALLOCATED} cannot be read: {error}") from error


def record_of(pod: Pod) -> Record:
    text = pod.annotations.get(labels.ALLOCATED)
    return NO_RECORD if text is None else read(text)


def strict_record_of(pod: Pod) -> Record:
    """The record of a Pod for a decision that must not rest on half an answer: whatever is odd is an error."""
    record = record_of(pod)
    if record and not pod.spec.node_name:
        raise RecordError(f"{_named(pod)} has a record but no node")
    declared = {c.name for c in (*(pod.spec.init_containers or ()), *(pod.spec.containers or ()))}
    for container, held in record.items():
        if container not in declared:
            raise RecordError(f"{_named(pod)} has a record for container {container!r}, which it does not declare")
        _believe(held.entries, f"{_named(pod)}, container {container!r}")
    return record


def written(record: Record) -> str:
    """The annotation's value."""
    stated = {container: _stated(held) for container, held in record.items()}
    return msgspec.json.encode(stated, order="deterministic").decode()


# --- The form on the wire -----------------------------------------------------------------------------------------

_Amount = Annotated[int, msgspec.Meta(ge=0)]


class _Card(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    id: str
    index: _Amount = 0
    mode: Annotated[int, msgspec.Meta(ge=int(Family.EXCLUSIVE), le=int(Family.PARTITIONED))]
    allocated: _Amount = 0
    allocated_physical_profile: str = ""
    allocated_physical_placements: tuple[Placement, ...] = ()
    allocated_physical_id: str = msgspec.field(default="", name="allocatedPhysicalID")


class _Group(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    manufacturer: str
    accelerators: tuple[_Card, ...] = ()


class _Devices(msgspec.Struct, frozen=True, kw_only=True):
    groups: tuple[_Group, ...] = ()


class _Container(msgspec.Struct, frozen=True, kw_only=True):
    devices: _Devices = _Devices()
    device_ids: tuple[str, ...] = msgspec.field(default=(), name="deviceIDs")


_decoder = msgspec.json.Decoder(dict[str, _Container])


def _container(stored: _Container) -> ContainerRecord:
    entries = tuple(_entry(group, card) for group in stored.devices.groups for card in group.accelerators)
    return ContainerRecord(entries, stored.device_ids)


def _entry(group: _Group, card: _Card) -> Entry:
    if any(place.start < 0 or place.length < 1 for place in card.allocated_physical_placements):
        raise ValueError(f"card {card.id} has a placement that is no interval")
    return Entry(
        manufacturer=group.manufacturer,
        group=group.id,
        card=card.id,
        index=card.index,
        mode=Family(card.mode),
        allocated=card.allocated,
        profile=card.allocated_physical_profile,
        placements=card.allocated_physical_placements,
        partition_id=card.allocated_physical_id,
    )


def _stated(held: ContainerRecord) -> dict[str, Any]:
    ordered = sorted(held.entries, key=lambda entry: (*_group_key(entry), entry.index, entry.card))
    groups = [
        {"id": group, "manufacturer": manufacturer, "accelerators": [_card(entry) for entry in members]}
        for (manufacturer, group), members in groupby(ordered, key=_group_key)
    ]
    return {"devices": {"groups": groups}, "deviceIDs": sorted(held.device_ids)}


def _card(entry: Entry) -> dict[str, Any]:
    card = _Card(
        id=entry.card,
        index=entry.index,
        mode=entry.mode,
        allocated=entry.allocated,
        allocated_physical_profile=entry.profile,
        allocated_physical_placements=entry.placements,
        allocated_physical_id=entry.partition_id,
    )
    stated: dict[str, Any] = msgspec.to_builtins(card)
    if entry.placements:
        intervals = [{"start": place.start, "length": place.length} for place in entry.placements]
        stated["allocatedPhysicalPlacements"] = intervals
    return stated | {"index": entry.index}


def _group_key(entry: Entry) -> tuple[str, str]:
    return entry.manufacturer, entry.group


# --- What a strict reader refuses ---------------------------------------------------------------------------------


def _believe(entries: Iterable[Entry], whose: str) -> None:
    repeated = [card for card, times in Counter((*_group_key(e), e.card) for e in entries).items() if times > 1]
    if repeated:
        raise RecordError(f"{whose}: card {repeated[0][-1]} is named twice")
    for entry in entries:
        if doubt := _doubt(entry):
            raise RecordError(f"{whose}: card {entry.card} {doubt}")


def _doubt(entry: Entry) -> str:
    if entry.allocated > CARD:
        return f"is charged {entry.allocated} units, more than a card has ({CARD})"
    if entry.mode is Family.SHARED and entry.allocated > SHARE:
        return f"is charged {entry.allocated} units, more than a share has ({SHARE})"
    if bool(entry.profile) != bool(entry.placements):
        return "has a profile without placements, or placements without a profile"
    return ""


def _named(pod: Pod) -> str:
    return f"Pod {pod.namespace}/{pod.name}"
