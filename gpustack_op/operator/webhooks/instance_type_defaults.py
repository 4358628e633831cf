"""What the defaulting webhook makes of an InstanceType.

Promises  What a person wrote is kept, but for its spelling: a whole number becomes the text of it. What was left out
          comes, on an update, from the old object; on creation, sizes come from the presets and descriptors from the
          catalog. Labels follow the spec alone. Doing it twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from gpustack_op.api.kueue import ResourceFlavor
from gpustack_op.api.worker import Devices, InstanceTypeSpec
from gpustack_op.operator.webhooks.instance_type_rules import DESCRIPTORS, QUANTITIES, usable_in_label, value_at
from gpustack_op.scheduling import labels, names
from gpustack_op.scheduling.derived_type import CPU_UNIT, LOCAL_STORAGE
from gpustack_op.scheduling.descriptors import descriptors
from gpustack_op.scheduling.manufacturers import GENERIC
from gpustack_op.scheduling.pools import type_labels
from gpustack_op.scheduling.presets import unit_resources

JsonObject = dict[str, Any]

CARRIED_OVER = (*DESCRIPTORS, "unitResources", "localStorage")
"""Fields that a replacing update may leave out: they can only be what they were."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """What is known of the cluster's hardware; empty when it is not known, or there is none."""

    flavors: tuple[ResourceFlavor, ...] = ()
    devices: tuple[Devices, ...] = ()


@dataclass(frozen=True, slots=True)
class Defaults:
    """The new object, and what was filled in that cannot be changed later."""

    object: JsonObject
    filled: Mapping[str, str]


def defaulted(new: JsonObject, old: JsonObject | None, hardware: Hardware) -> Defaults:
    """The object with everything filled in that it leaves out; `old` is None at its creation."""
    if not isinstance(new.get("spec"), Mapping):
        return Defaults(new, {})
    spec = _without_nulls(new["spec"])
    before = _without_nulls((old or {}).get("spec") or {})
    spec |= {name: before[name] for name in CARRIED_OVER if name in before and name not in spec}
    spec = _spelt(spec, before)
    if not spec.get("generalGroup") and (old is None or before.get("generalGroup")):
        spec["generalGroup"] = GENERIC
    if _selects_nothing(spec) or (read := readable(spec)) is None:
        return Defaults({**new, "spec": spec}, {})
    known = descriptors(read, hardware.flavors, hardware.devices)
    spec |= {name: value for name, value in known.items() if spec.get(name) in (None, "")}
    filled = _fill_sizes(spec) if old is None else {}
    return Defaults({**new, "metadata": _labelled(new.get("metadata") or {}, read), "spec": spec}, filled)


def readable(spec: JsonObject) -> InstanceTypeSpec | None:
    """The spec as the rest of the operator reads it; None when the schema will refuse it anyway."""
    try:
        return msgspec.convert(spec, InstanceTypeSpec)
    except msgspec.ValidationError:
        return None


def _selects_nothing(spec: JsonObject) -> bool:
    """An accelerated type that does not say of what; validation refuses it."""
    return bool(spec.get("acceleratable")) and not spec.get("acceleratorGroup")


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return value


def _spelt(spec: JsonObject, before: JsonObject) -> JsonObject:
    """Quantities as text; one that has not changed stays as it is stored, since changing it is forbidden."""
    for path in QUANTITIES:
        value, stored = value_at(spec, path), value_at(before, path)
        if isinstance(value, int) and not isinstance(value, bool):
            _put(spec, path, stored if str(stored) == str(value) else str(value))
        elif isinstance(value, str) and type(stored) is int and str(stored) == value:
            _put(spec, path, stored)
    return spec


def _fill_sizes(spec: JsonObject) -> dict[str, str]:
    """Adds the sizes that are left out, and tells which."""
    preset = {**_unit(spec), "localStorage": LOCAL_STORAGE}
    filled = {path: value for path, value in preset.items() if value_at(spec, path) is None}
    for path, value in filled.items():
        _put(spec, path, value)
    return filled


def _unit(spec: JsonObject) -> dict[str, str]:
    """The preset of the type's product, which its group names as well as the catalog does."""
    if not spec.get("acceleratable"):
        return {f"unitResources.{name}": value for name, value in CPU_UNIT.items()}
    group = spec["acceleratorGroup"]
    manufacturer = spec.get("manufacturer") or labels.manufacturer_of(group)
    tier = unit_resources(manufacturer, spec.get("product") or group.removeprefix(f"{manufacturer}-"))
    return {"unitResources.cpu": tier.cpu, "unitResources.ram": tier.ram}


def _put(spec: JsonObject, path: str, value: Any) -> None:
    parent, _, field = path.rpartition(".")
    target = spec
    if parent:
        target = spec[parent] = dict(spec.get(parent) or {})
    target[field] = value


def _labelled(metadata: JsonObject, spec: InstanceTypeSpec) -> JsonObject:
    """The pool's labels instead of those of another pool; an object without a name yet gets its entrance later."""
    present = metadata.get("labels") or {}
    prefixes = (labels.GENERAL_PREFIX, labels.ACCELERATOR_PREFIX)
    kept = {key: value for key, value in present.items() if not key.startswith(prefixes)}
    wanted = {key: value for key, value in type_labels(spec).items() if _is_legal(key, value)}
    if metadata.get("name"):
        wanted[labels.QUEUE_ENTRANCE] = names.entrance(metadata["name"])
    return {**metadata, "labels": kept | wanted}


def _is_legal(key: str, value: str) -> bool:
    """Anything else is refused by the rules, in the words of the field it came from."""
    return usable_in_label(key.rpartition("/")[2]) and usable_in_label(value)
