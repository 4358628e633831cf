"""Our own kinds as caches hold them: the same fields as the pydantic models, in a fraction of the memory.

A unit test decodes what the models write with these structs, so that the two cannot drift apart. Quantities may be
numbers on the wire (`cpu: 2`), so they are `Text` here and parsed by whoever computes with them.
"""

from __future__ import annotations

import msgspec

from gpustack_op.api.meta import KubeObject, Resource

GROUP, VERSION = "worker.gpustack.ai", "v1"
SETTINGS_GROUP = "gpustack.ai"

Text = str | int | float | bool
"""What an int-or-string field may hold on the wire; older objects may hold even less sensible values."""


# --- Devices ------------------------------------------------------------------------------------------------------


class Placement(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    start: int = 0
    length: int = 0


class PhysicalProfile(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    name: str = ""
    memory_mib: int = 0
    compute_slices: int = 0
    memory_slices: int = 0
    count: int = 0
    placements: tuple[Placement, ...] | None = None


class LogicalSliced(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    count: int = 0
    cores_percentage_overcommit: bool = False


class PhysicalSliced(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    count: int = 0
    profiles: tuple[PhysicalProfile, ...] | None = None


class CardStatus(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """What one card can do now; part of the spec, since the agent declares it."""

    unhealthy: bool = False
    logical_sliced: LogicalSliced | None = None
    physical_sliced: PhysicalSliced | None = None


class CardTopology(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    pci_bus_id: str = ""
    pci_root_id: str = ""
    pci_class: str = ""
    numa_affinity: str = ""
    cpu_affinity: str = ""


class Card(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    id: str = ""
    index: int = 0
    physical_indexes: tuple[int, ...] | None = None
    topology: CardTopology | None = None
    status: CardStatus = CardStatus()


class SlicedDetail(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    logical: LogicalSliced | None = None
    physical: PhysicalSliced | None = None


class DeviceGroup(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    """Cards of one product and memory size on one node. `memory` is MiB, 0 when the driver does not tell."""

    id: str = ""
    manufacturer: str = ""
    name: str = ""
    memory: int = 0
    cores: int = 0
    driver_version: str = ""
    runtime_version: str = ""
    compute_capability: str = ""
    family: str = ""
    accelerators: tuple[Card, ...] | None = None
    accelerator_sliced_detail: SlicedDetail | None = None


class ProfileCount(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    name: str = ""
    count: int = 0


class LedgerRow(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """One card's account. `remaining` is in units (1,600,000 a card); absent means 0, not unknown."""

    id: str = ""
    index: int = 0
    mode: int = 0
    remaining: int = 0
    allocated_slices: int = 0
    allocated_profiles: tuple[ProfileCount, ...] | None = None
    remaining_profiles: tuple[ProfileCount, ...] | None = None


class LedgerGroup(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    id: str = ""
    manufacturer: str = ""
    accelerators: tuple[LedgerRow, ...] | None = None


class DevicesSpec(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    groups: tuple[DeviceGroup, ...] | None = None


class DevicesStatus(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    groups: tuple[LedgerGroup, ...] | None = None


class Devices(KubeObject, frozen=True, gc=False, kw_only=True):
    spec: DevicesSpec = DevicesSpec()
    status: DevicesStatus = DevicesStatus()


# --- InstanceType -------------------------------------------------------------------------------------------------


class UnitResources(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    cpu: Text | None = None
    ram: Text | None = None


class LogicalSlicing(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    max_size: int = 0
    cores_percentage_overcommit: bool = False
    memory_percentage_step: int = 0


class PhysicalSlicing(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    max_size: int = 0


class Feature(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    logical_sliced: LogicalSlicing | None = None
    physical_sliced: PhysicalSlicing | None = None


class InstanceTypeSpec(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    display_name: str | None = None
    description: str | None = None
    inactive: bool | None = None
    acceleratable: bool | None = None
    accelerator_group: str | None = None
    general_group: str | None = None
    os: str | None = None
    arch: str | None = None
    manufacturer: str | None = None
    product: str | None = None
    family: str | None = None
    memory: Text | None = None
    cores: Text | None = None
    feature: Feature | None = None
    unit_resources: UnitResources | None = None
    local_storage: Text | None = None


class InstanceType(KubeObject, frozen=True, gc=False, kw_only=True):
    """`status` is kept as decoded JSON: one reconciler writes it whole and compares it whole."""

    spec: InstanceTypeSpec = InstanceTypeSpec()
    status: dict[str, object] | None = None


# --- InstanceTypeFlavor -------------------------------------------------------------------------------------------


class InstanceTypeFlavorSpec(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    general_group: str = ""
    accelerator_group: str = ""
    acceleratable: bool | None = None
    manufacturer: str = ""
    product: str = ""
    family: str = ""
    memory: str = ""
    cores: str = ""
    sliceable: bool | None = None


class InstanceTypeFlavor(KubeObject, frozen=True, gc=False, kw_only=True):
    spec: InstanceTypeFlavorSpec = InstanceTypeFlavorSpec()


# --- Setting ------------------------------------------------------------------------------------------------------


class SettingSpec(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    value: str | None = None


class SettingStatus(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """`value` is the last good one, in force until a better one parses."""

    value: str | None = None
    default: str | None = None
    type: str | None = None
    description: str | None = None
    message: str | None = None


class Setting(KubeObject, frozen=True, gc=False, kw_only=True):
    spec: SettingSpec = SettingSpec()
    status: SettingStatus = SettingStatus()


DEVICES = Resource(GROUP, VERSION, "devices", "Devices", Devices, annotations=("gpustack.ai/",))
INSTANCE_TYPES = Resource(GROUP, VERSION, "instancetypes", "InstanceType", InstanceType)
INSTANCE_TYPE_FLAVORS = Resource(GROUP, VERSION, "instancetypeflavors", "InstanceTypeFlavor", InstanceTypeFlavor)
SETTINGS = Resource(
    SETTINGS_GROUP, VERSION, "settings", "Setting", Setting, namespaced=True, annotations=("gpustack.ai/",)
)
