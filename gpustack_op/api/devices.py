"""Devices: the accelerators of one node, and the account of what is in use on each."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpustack_op.api.instance_type_status import ProfileCount
from gpustack_op.api.model import Column, Count, CustomResource, Definition, Model, list_map
from gpustack_op.api.worker import DEVICES


class Placement(Model):
    """An interval of memory slices."""

    start: Count = 0
    """First memory slice."""

    length: Count = 0
    """Number of memory slices."""


class PhysicalProfile(Model):
    """A kind of hardware partition."""

    name: str
    """Profile, such as 1g.10gb."""

    memory_mib: Count = 0
    """Memory of one such partition in MiB."""

    compute_slices: Count | None = None
    """Compute slices that one such partition takes."""

    memory_slices: Count | None = None
    """Memory slices that one such partition takes."""

    count: Count = 0
    """Most partitions of this profile at once."""

    placements: tuple[Placement, ...] | None = None
    """Every place such a partition may take on an empty accelerator."""


class LogicalSliced(Model):
    """Slicing in software."""

    count: Count = 0
    """Most slices; 0 when there can be none."""

    cores_percentage_overcommit: bool | None = None
    """Whether the compute shares of the slices may add up to more than 100 percent."""


class PhysicalSliced(Model):
    """Partitioning in hardware, reported while the accelerator is in such a mode."""

    count: Count = 0
    """Most partitions; an accelerator with more than 0 serves partitions only."""

    profiles: Annotated[tuple[PhysicalProfile, ...], list_map("name")] | None = None
    """Kinds of partition on offer."""


class CardStatus(Model):
    """What one accelerator can do now."""

    unhealthy: bool = False
    """True while the accelerator cannot be used; it then leaves every free count."""

    logical_sliced: LogicalSliced | None = None
    """Slicing in software."""

    physical_sliced: PhysicalSliced | None = None
    """Partitioning in hardware."""


class CardTopology(Model):
    """Where the accelerator is plugged in."""

    pci_bus_id: str | None = None
    """PCI address, such as 0000:00:1e.0. It may change; status and accounts go by id."""

    pci_root_id: str | None = None
    """Outermost PCI bridge above it."""

    pci_class: str | None = None
    """PCI class, such as 0x030200."""

    numa_affinity: str | None = None
    """NUMA nodes near it, as a list of ranges such as 0-1."""

    cpu_affinity: str | None = None
    """CPUs near it, as a list of ranges such as 0-23."""


class Card(Model):
    """One accelerator."""

    id: str
    """The manufacturer's unique id, such as GPU-e0587d2e-127c-4fb8-e2c1-6e517529f575."""

    index: Count
    """Position among all accelerators of this manufacturer on the node, from 0."""

    physical_indexes: tuple[Count, ...] | None = None
    """The driver's own numbers, such as the minor number; absent when the driver does not tell."""

    topology: CardTopology | None = None
    """Where it is plugged in."""

    status: CardStatus = CardStatus()
    """What it can do now."""


class GroupSlicedDetail(Model):
    """What the accelerators of a group could be divided into, summed."""

    logical: LogicalSliced | None = None
    """Slicing in software."""

    physical: PhysicalSliced | None = None
    """Partitioning in hardware."""


class DeviceGroup(Model):
    """The accelerators of one product and memory size."""

    id: str
    """Product, in a form fit for labels, such as a10g or tesla-t4."""

    manufacturer: str
    """Manufacturer, such as nvidia."""

    name: str
    """Product name as the driver gives it, such as NVIDIA A10G."""

    memory: Count = 0
    """Memory of one accelerator in MiB; 0 when the driver does not tell."""

    cores: Count | None = None
    """Compute cores of one accelerator."""

    driver_version: str | None = None
    """Version of the driver, such as 580.159.03."""

    runtime_version: str | None = None
    """Version of the compute runtime that the driver supports, such as 13.0."""

    compute_capability: str | None = None
    """Compute capability, such as 8.6."""

    family: str | None = None
    """Product family, such as Ampere."""

    accelerators: Annotated[tuple[Card, ...], list_map("id")] | None = None
    """The accelerators, by index."""

    accelerator_sliced_detail: GroupSlicedDetail | None = None
    """What they could be divided into, summed."""


class LedgerRow(Model):
    """The account of one accelerator. A whole accelerator is 1,600,000 units."""

    id: str
    """The accelerator, as in spec."""

    index: Count = 0
    """Its index, as in spec."""

    mode: Annotated[int, Field(ge=0, le=4)] = 0
    """How it is in use: 0 free, 1 exclusive, 2 shared, 3 sliced, 4 partitioned."""

    remaining: Count | None = None
    """Free units; absent means none."""

    allocated_slices: Count | None = None
    """Containers that hold a logical slice."""

    allocated_profiles: Annotated[tuple[ProfileCount, ...], list_map("name")] | None = None
    """Partitions in use, by profile."""

    remaining_profiles: Annotated[tuple[ProfileCount, ...], list_map("name")] | None = None
    """Partitions that could still be made, by profile."""


class LedgerGroup(Model):
    """The accounts of one group."""

    id: str
    """The group, as in spec."""

    manufacturer: str
    """Its manufacturer, as in spec."""

    accelerators: Annotated[tuple[LedgerRow, ...], list_map("id")] | None = None
    """One account an accelerator."""


class DevicesSpec(Model):
    """The accelerators the node's agent found."""

    groups: Annotated[tuple[DeviceGroup, ...], list_map("id", "manufacturer")] | None = None
    """The accelerators by product and memory size."""


class DevicesStatus(Model):
    """The ledger: what is in use on each accelerator."""

    groups: Annotated[tuple[LedgerGroup, ...], list_map("id", "manufacturer")] | None = None
    """The accounts, grouped as in spec."""


class Devices(CustomResource):
    """The accelerators of one node, named after it. Written by the agent on that node."""

    spec: DevicesSpec | None = None
    status: DevicesStatus | None = None


DEFINITION = Definition(
    resource=DEVICES,
    model=Devices,
    columns=(Column("Age", ".metadata.creationTimestamp", "When first reported.", type="date", priority=1),),
)
