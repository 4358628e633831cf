"""InstanceType: a pool of like nodes, cut into units that Instances are sized by."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field

from gpustack_op.api.instance_type_status import InstanceTypeStatus
from gpustack_op.api.model import Column, Count, CustomResource, Definition, Model, must_be, rule
from gpustack_op.api.quantity import Quantity
from gpustack_op.api.worker import INSTANCE_TYPES

_ONLY: Final = "only displayName, description and inactive may change"


def _frozen(field: str) -> dict[str, Any]:
    """The field keeps what it was created with, be it nothing."""
    return rule(
        f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})",
        f"{field} is immutable; {_ONLY}",
        field=f".{field}",
    )


def _descriptor(field: str) -> dict[str, Any]:
    """The field may be filled in once, when the hardware becomes known, and is frozen from then on."""
    return rule(
        f"!has(oldSelf.{field}) || (has(self.{field}) && self.{field} == oldSelf.{field})",
        f"{field} is immutable once it is set; {_ONLY}",
        field=f".{field}",
    )


WholeGi = Annotated[Quantity, must_be('a positive integer with a case-sensitive "Gi" suffix')]


class UnitResources(Model):
    """What one unit of the pool comes with: one accelerator, or one CPU core where the pool has no accelerators."""

    cpu: Annotated[Quantity, must_be("a positive integer with no unit suffix")] | None = None
    """CPU cores of one unit, a whole number without a suffix, such as 8. It is 1 where the pool has no accelerators."""

    ram: WholeGi | None = None
    """Memory of one unit: a whole number and the suffix Gi, such as 64Gi."""


class LogicalSlicing(Model):
    """Slicing in software: containers share an accelerator, each with a cap on memory and compute."""

    max_size: Count = 0
    """Most slices one accelerator of the pool can host; 0 when it cannot be sliced."""

    cores_percentage_overcommit: bool | None = None
    """Whether the compute shares of one accelerator's slices may add up to more than 100 percent."""

    memory_percentage_step: Count | None = None
    """Smallest step, in percent of the accelerator's memory, in which a slice can be sized."""


class PhysicalSlicing(Model):
    """Partitioning in hardware, such as MIG."""

    max_size: Count = 0
    """Most partitions one accelerator of the pool can be divided into; 0 when none is in a partitioning mode."""


class Feature(Model):
    """How the accelerators of a pool can be shared."""

    logical_sliced: LogicalSlicing | None = None
    """Slicing in software, where the accelerators are capable of it."""

    physical_sliced: PhysicalSlicing | None = None
    """Partitioning in hardware, where an accelerator of the pool is in such a mode."""


class InstanceTypeSpec(Model):
    """Which nodes the pool is made of, and what one unit of it is. Only displayName, description and inactive may
    change later."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                *(_frozen(field) for field in ("acceleratable", "acceleratorGroup", "generalGroup", "os", "arch")),
                *(_frozen(field) for field in ("unitResources", "localStorage")),
                *(_descriptor(field) for field in ("manufacturer", "product", "family", "memory", "cores", "feature")),
            ]
        }
    )

    display_name: Annotated[str, Field(max_length=64)] | None = None
    """Name shown to people, at most 64 characters. May change at any time."""

    description: Annotated[str, Field(max_length=1024)] | None = None
    """What the pool is meant for, at most 1024 characters. May change at any time."""

    inactive: bool | None = None
    """True closes the pool: what runs goes on, nothing new is admitted. May change at any time."""

    acceleratable: bool | None = None
    """True for a pool of accelerators, false or absent for a pool of CPUs."""

    accelerator_group: str | None = None
    """Which accelerators: manufacturer and product as `kubectl get instancetypeflavors` lists them, such as
    nvidia-a10g. Needed when acceleratable is true."""

    general_group: str | None = None
    """Which CPUs: manufacturer and product, such as amd-epyc-7r32, or `generic`, the default, for whatever CPU."""

    os: str | None = None
    """Operating system of the nodes, such as linux."""

    arch: str | None = None
    """Processor architecture of the nodes, such as amd64 or arm64."""

    manufacturer: str | None = None
    """Manufacturer of the accelerator, or of the CPU in a pool without accelerators. Filled in from the catalog."""

    product: str | None = None
    """Product name, such as NVIDIA-A10G. Filled in from the catalog."""

    family: str | None = None
    """Product family, such as Ampere. Filled in from the catalog."""

    memory: Quantity | None = None
    """Memory of one accelerator, such as 24Gi. Filled in from the catalog."""

    cores: Quantity | None = None
    """Compute cores of one accelerator, such as 10240. Filled in from the catalog."""

    feature: Feature | None = None
    """How the accelerators can be shared. Filled in from what the nodes report."""

    unit_resources: UnitResources | None = None
    """CPU and memory that come with one unit."""

    local_storage: WholeGi | None = None
    """Local disk that comes with one unit: a whole number and the suffix Gi, such as 100Gi."""


class InstanceType(CustomResource):
    """A schedulable pool: all nodes of one kind of accelerator, or of one kind of CPU, behind one queue. Pods enter by
    the queue that status.entrance names; status tells what is free."""

    spec: InstanceTypeSpec
    status: InstanceTypeStatus | None = None

    @classmethod
    def of(cls, document: dict[str, Any]) -> InstanceType:
        """Reads a decoded object; a `pydantic.ValidationError` names each field that is wrong."""
        return cls.model_validate(document)


DEFINITION = Definition(
    resource=INSTANCE_TYPES,
    model=InstanceType,
    short_names=("instype",),
    columns=(
        Column("Entrance", ".status.entrance", "Queue name that Pods of this pool carry."),
        Column("Unit(CPU/RAM)/Storage", ".status.summary.unit", "What one unit comes with."),
        Column(
            "Accelerator(EX/SH/SL/PT)",
            ".status.summary.accelerator",
            "Largest single request and free amount, for exclusive, shared, sliced and partitioned use.",
        ),
        Column("CPU", ".status.summary.cpu", "Free cores on the freest node and in the whole pool."),
        Column("Phase", ".status.phase", "Whether the pool takes work."),
        Column("Partitions", ".status.summary.partitions", "Free partitions by profile.", priority=1),
    ),
)
