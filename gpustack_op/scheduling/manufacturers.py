"""The one table of accelerator manufacturers; adding a manufacturer to the pure layers means adding a row here.

Promises  Every name of a resource an accelerator is advertised or charged under comes from a row of this table, and
          `Manufacturers.family` reads such a name back. A name that belongs to no row is no accelerator resource.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

GENERIC = "generic"
"""The CPU manufacturer that stands for any CPU. Not an accelerator manufacturer."""

PCI_CLASSES = ("02", "03", "0b", "12")
"""Prefixes of the PCI classes an accelerator may report: network, display, processor, accelerator."""

CREDITS_PREFIX = "credits.gpustack.ai/"
VISIBILITY_PREFIX = "device.gpustack.ai/"
VISIBILITY_SUFFIX = ".visibility"


class Family(IntEnum):
    """How a card is given out. The numbers are what a ledger row's `mode` holds; visibility is never stored."""

    NONE = 0
    EXCLUSIVE = 1
    SHARED = 2
    SLICED = 3
    PARTITIONED = 4
    VISIBILITY = 5


@dataclass(frozen=True, slots=True)
class Doors:
    """By what a container could reach cards that it was not given, or lift the limits of those that it was."""

    visible_devices: str = ""
    """The variable by which the container runtime hands out cards, to whoever sets it. Images set it, too."""
    no_devices: str = ""
    """Its value for no card at all."""
    variables: tuple[str, ...] = ()
    """Other variables that belong to the runtime and the agent; a `*` at the end stands for any rest."""
    paths: tuple[str, ...] = ()
    """Where the agent mounts into a container, or the runtime reads a wish from a mount."""

    def reserves(self, variable: str) -> bool:
        patterns = (name for name in (self.visible_devices, *self.variables) if name)
        return any(variable.startswith(name[:-1]) if name.endswith("*") else variable == name for name in patterns)


@dataclass(frozen=True, slots=True)
class Manufacturer:
    """One row. `logical_slices` is per card; `taint` is the key its nodes are customarily tainted with."""

    id: str
    pci_vendor_id: str
    base_resource: str
    runtime_name: str
    partition_kind: str = ""
    logical_slices: int = 0
    cores_overcommit: bool = False
    taint: str = ""
    """Empty where no custom is known: then the flavors tolerate nothing."""
    keeps_slices: bool = False
    """Whether the driver keeps a slice after its containers have ended, until it is taken down by hand."""
    doors: Doors = Doors()

    @property
    def pci_vendor(self) -> str:
        """The bare vendor, also where an override spells `class_vendor`."""
        return self.pci_vendor_id.rsplit("_", 1)[-1]

    @property
    def credits(self) -> str:
        return CREDITS_PREFIX + self.id

    @property
    def visibility(self) -> str:
        return VISIBILITY_PREFIX + self.id + VISIBILITY_SUFFIX

    @property
    def shared(self) -> str:
        return self.base_resource + ".shared"

    @property
    def sliced(self) -> str:
        return self.base_resource + ".sliced"

    @property
    def sliced_units(self) -> str:
        return self.sliced + ".units"

    @property
    def sliced_cores_percentage(self) -> str:
        return self.sliced + ".cores-percentage"

    @property
    def sliced_memory_percentage(self) -> str:
        return self.sliced + ".memory-percentage"

    @property
    def sliced_memory_mib(self) -> str:
        return self.sliced + ".memory-mib"

    @property
    def partitioned(self) -> str:
        """Empty, like every other partition name, for a manufacturer that cannot partition."""
        return self.base_resource + ".partitioned" if self.partition_kind else ""

    @property
    def partitioned_units(self) -> str:
        return self.partitioned + ".units" if self.partition_kind else ""

    def partitioned_profile(self, profile: str) -> str:
        return f"{self.partitioned}.{self.partition_kind}-{profile}" if self.partition_kind and profile else ""

    def profile_of(self, resource: str) -> str:
        """The profile that a resource name of this manufacturer asks a partition of; empty when it names none."""
        return resource.removeprefix(self._profile_lead()) if self._is_profile(resource) else ""

    def family(self, resource: str) -> Family:
        """The family a resource name of this manufacturer asks for; `Family.NONE` when it is not one of its names."""
        return self._fixed_names().get(resource) or (Family.PARTITIONED if self._is_profile(resource) else Family.NONE)

    def _is_profile(self, resource: str) -> bool:
        lead = self._profile_lead()
        return bool(self.partition_kind) and resource.startswith(lead) and len(resource) > len(lead)

    def _profile_lead(self) -> str:
        return f"{self.partitioned}.{self.partition_kind}-"

    def _fixed_names(self) -> dict[str, Family]:
        sliced = (
            self.sliced,
            self.sliced_units,
            self.sliced_cores_percentage,
            self.sliced_memory_percentage,
            self.sliced_memory_mib,
        )
        names = {self.base_resource: Family.EXCLUSIVE, self.shared: Family.SHARED, self.visibility: Family.VISIBILITY}
        names |= dict.fromkeys(sliced, Family.SLICED)
        if self.partition_kind:
            names |= dict.fromkeys((self.partitioned, self.partitioned_units), Family.PARTITIONED)
        return names


class Manufacturers:
    """The manufacturers one process knows, looked up by id or by a resource name."""

    __slots__ = ("_by_id",)

    def __init__(self, rows: Iterable[Manufacturer]) -> None:
        self._by_id = {row.id: row for row in sorted(rows, key=lambda row: row.id)}

    def get(self, manufacturer_id: str) -> Manufacturer | None:
        return self._by_id.get(manufacturer_id)

    def all(self) -> tuple[Manufacturer, ...]:
        """Sorted by id."""
        return tuple(self._by_id.values())

    def ids(self) -> tuple[str, ...]:
        return tuple(self._by_id)

    def __iter__(self) -> Iterator[Manufacturer]:
        return iter(self.all())

    def __contains__(self, manufacturer_id: str) -> bool:
        return manufacturer_id in self._by_id

    def pci_vendors(self, ids: Iterable[str] | None = None) -> tuple[str, ...]:
        """The distinct PCI vendors of these manufacturers (default: all), sorted. Unknown ids add nothing."""
        rows = self.all() if ids is None else [self._by_id[name] for name in ids if name in self._by_id]
        return tuple(sorted({row.pci_vendor for row in rows}))

    def family(self, resource: str) -> Family:
        """The family a resource name asks for, `Family.NONE` when it is no accelerator resource."""
        return next((family for row in self.all() if (family := row.family(resource))), Family.NONE)

    def of_resource(self, resource: str) -> Manufacturer | None:
        """The manufacturer whose accelerators a resource name asks for."""
        return next((row for row in self.all() if row.family(resource)), None)

    def of_credits(self, resource: str) -> Manufacturer | None:
        """The manufacturer whose quota a resource name counts."""
        return self.get(resource.removeprefix(CREDITS_PREFIX)) if resource.startswith(CREDITS_PREFIX) else None

    def overridden(self, environment: Mapping[str, str]) -> Manufacturers:
        """The table with the names an administrator changed. An empty variable keeps the built-in name."""
        return Manufacturers(_overridden(row, environment) for row in self.all())


def _overridden(row: Manufacturer, environment: Mapping[str, str]) -> Manufacturer:
    lead = f"GPUSTACK_{row.id.upper()}_"
    return replace(
        row,
        pci_vendor_id=environment.get(lead + "PCI_VENDOR_ID") or row.pci_vendor_id,
        base_resource=environment.get(lead + "ACCELERATABLE_RESOURCE_NAME") or row.base_resource,
        runtime_name=environment.get(lead + "ACCELERATABLE_RUNTIME_NAME") or row.runtime_name,
        partition_kind=environment.get(lead + "PARTITION_KIND") or row.partition_kind,
    )


MANUFACTURERS = Manufacturers(
    [
        Manufacturer("amd", "1002", "amd.com/gpu", "amd"),
        Manufacturer("ascend", "19e5", "huawei.com/npu", "ascend", logical_slices=63, cores_overcommit=True),
        Manufacturer("cambricon", "cabc", "cambricon.com/mlu", "cambricon", logical_slices=16, keeps_slices=True),
        Manufacturer("hygon", "1d94", "hygon.com/dcu", "hygon", "mig", logical_slices=4),
        Manufacturer("iluvatar", "1e3e", "iluvatar.com/gpu", "iluvatar"),
        Manufacturer("metax", "9999", "metax-tech.com/gpu", "metax", logical_slices=16, keeps_slices=True),
        Manufacturer("mthreads", "1ed5", "mthreads.com/gpu", "mthreads", logical_slices=16),
        Manufacturer(
            "nvidia",
            "10de",
            "nvidia.com/gpu",
            "nvidia",
            "mig",
            logical_slices=128,
            cores_overcommit=True,
            taint="nvidia.com/gpu",
            doors=Doors(
                visible_devices="NVIDIA_VISIBLE_DEVICES",
                no_devices="none",
                variables=(
                    *("NVIDIA_MIG_*", "NVIDIA_IMEX_CHANNELS"),
                    # Of the library that holds a slice to its limits.
                    *("CUDA_DEVICE_SM_LIMIT", "CUDA_DEVICE_MEMORY_LIMIT*", "CUDA_DEVICE_MEMORY_SHARED_CACHE"),
                    *("CUDA_DISABLE_CONTROL", "CUDA_OVERSUBSCRIBE", "GPU_CORE_UTILIZATION_POLICY"),
                ),
                paths=("/usr/local/vgpu", "/tmp/vgpu", "/tmp/vgpulock", "/var/run/nvidia-container-devices"),
            ),
        ),
        Manufacturer("thead", "1ded", "alibabacloud.com/ppu", "", "mig"),
    ]
)
"""The built-in table. Resource names are those of the vendors' own device plugins."""
