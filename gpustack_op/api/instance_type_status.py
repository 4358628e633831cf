"""The status of an InstanceType: whether the pool takes work, and four views of its accelerators."""

from __future__ import annotations

from typing import Annotated

from gpustack_op.api.model import Count, Model, list_map
from gpustack_op.api.quantity import Quantity


class View(Model):
    """One way to ask for the pool: how much there is, how much is free, how much one request may ask for."""

    capacity: Quantity
    """Whole amount, whatever is in use. Unhealthy accelerators are counted."""

    once_max_request: Quantity
    """Most that one request can be given now."""

    remaining: Quantity
    """What is free in all."""


class ProfileCount(Model):
    """How many partitions of one profile."""

    name: str
    """Profile, such as 1g.10gb."""

    count: Count
    """Number of partitions."""


class PartitionedView(View):
    """Accelerators in a partitioning mode; profiles of one accelerator compete, so the counts are not a sum."""

    allocated_profiles: Annotated[tuple[ProfileCount, ...], list_map("name")] | None = None
    """Partitions in use, by profile."""

    remaining_profiles: Annotated[tuple[ProfileCount, ...], list_map("name")] | None = None
    """Partitions that could still be made, by profile."""


class CpuCache(Model):
    """Cache sizes of a CPU, in bytes."""

    l1i: str | None = None
    """First level, instructions."""

    l1d: str | None = None
    """First level, data."""

    l2: str | None = None
    """Second level."""

    l3: str | None = None
    """Third level."""


class CpuFacts(Model):
    """What the nodes report about their CPUs. All numbers are text."""

    physical_cores: str | None = None
    """Physical cores of one node."""

    threads_per_physical_core: str | None = None
    """Hardware threads of one physical core."""

    logical_cores: str | None = None
    """Logical cores of one node."""

    stepping: str | None = None
    """Stepping of the CPU model."""

    clock_speed: str | None = None
    """Base clock in Hz."""

    max_clock_speed: str | None = None
    """Boost clock in Hz."""

    cache_line: str | None = None
    """Size of a cache line in bytes."""

    cache: CpuCache | None = None
    """Cache sizes in bytes."""


class CpuDetail(CpuFacts):
    """The CPU beside an accelerator."""

    manufacturer: str | None = None
    """Manufacturer of the CPU, such as amd."""

    product: str | None = None
    """Product name of the CPU, such as AMD EPYC 7R32."""

    family: str | None = None
    """Family number of the CPU."""


class LogicalSlicedDetail(Model):
    """Slicing in software, over the whole pool."""

    count: Count = 0
    """Most slices that all accelerators together can host."""

    cores_percentage_overcommit: bool | None = None
    """Whether the compute shares of one accelerator's slices may add up to more than 100 percent."""


class ProfileDetail(Model):
    """A partition profile and how often the pool could hold it, were it empty."""

    name: str
    """Profile, such as 1g.10gb."""

    count: Count = 0
    """Most partitions of this profile over the whole pool."""

    memory_mib: Count = 0
    """Memory of one such partition in MiB."""


class PhysicalSlicedDetail(Model):
    """Partitioning in hardware, over the whole pool."""

    count: Count = 0
    """Most partitions that all accelerators together can hold."""

    profiles: Annotated[tuple[ProfileDetail, ...], list_map("name")] | None = None
    """The profiles on offer."""


class SlicedDetail(Model):
    """What the accelerators of the pool could be divided into; it does not move with what is in use."""

    logical: LogicalSlicedDetail | None = None
    """Slicing in software."""

    physical: PhysicalSlicedDetail | None = None
    """Partitioning in hardware."""


class Detail(CpuFacts):
    """The hardware as the nodes report it now. The CPU fields at this level describe a pool without accelerators."""

    manufacturer: str | None = None
    """Manufacturer of the accelerator, or of the CPU."""

    product: str | None = None
    """Product name."""

    family: str | None = None
    """Product family."""

    memory: Quantity | None = None
    """Memory of one accelerator, such as 24Gi."""

    cores: Quantity | None = None
    """Compute cores of one accelerator."""

    compute_capability: str | None = None
    """Compute capability, such as 8.6."""

    runtime_version: str | None = None
    """Lowest version of the compute runtime on the nodes, such as 13.0."""

    runtime_versions: tuple[str, ...] | None = None
    """All versions of the compute runtime on the nodes, lowest first."""

    cpu: CpuDetail | None = None
    """The CPU beside the accelerator, where pools are told apart by CPU."""

    sliced_detail: SlicedDetail | None = None
    """What the accelerators could be divided into."""


class Summary(Model):
    """Cells of `kubectl get`, composed since a column can show one field only."""

    unit: str | None = None
    """What one unit comes with: CPU/RAM/storage."""

    accelerator: str | None = None
    """Largest single request / free amount, for exclusive, shared, sliced and partitioned use."""

    cpu: str | None = None
    """Free cores on the freest node / in the whole pool."""

    partitions: str | None = None
    """Free partitions by profile."""


class InstanceTypeStatus(Model):
    """What the pool is, whether it takes work, and what is free. Written by the operator."""

    phase: str | None = None
    """Active, Inactive (closed by spec.inactive), Activating (its queue is not ready yet) or Draining."""

    phase_message: str | None = None
    """Why the phase is what it is, or what to mind, in one sentence."""

    entrance: str | None = None
    """Queue name that a Pod carries in the label kueue.x-k8s.io/queue-name to enter this pool."""

    detail: Detail | None = None
    """The hardware as the nodes report it now."""

    accelerator: View | None = None
    """Whole accelerators, for exclusive use."""

    accelerator_shared: View | None = None
    """Shares, ten to an accelerator. onceMaxRequest counts accelerators of one node that have a free share."""

    accelerator_sliced: View | None = None
    """Logical slices, in percent of one accelerator's memory."""

    accelerator_partitioned: PartitionedView | None = None
    """Hardware partitions."""

    cpu: View | None = None
    """CPU cores, in a pool without accelerators."""

    summary: Summary | None = None
    """Cells of `kubectl get`."""
