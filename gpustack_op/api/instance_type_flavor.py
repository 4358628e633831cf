"""InstanceTypeFlavor: one row of the catalog that custom InstanceTypes are written from."""

from __future__ import annotations

from gpustack_op.api.model import Column, CustomResource, Definition, Model
from gpustack_op.api.quantity import Quantity
from gpustack_op.api.worker import INSTANCE_TYPE_FLAVORS


class InstanceTypeFlavorSpec(Model):
    """What an InstanceType would be made of."""

    general_group: str | None = None
    """CPU group to write into an InstanceType's spec.generalGroup, such as amd-epyc-7r32 or generic."""

    accelerator_group: str | None = None
    """Accelerator group to write into an InstanceType's spec.acceleratorGroup, such as nvidia-a10g."""

    acceleratable: bool | None = None
    """Whether these nodes have accelerators."""

    manufacturer: str | None = None
    """Manufacturer of the accelerator, or of the CPU where there is none."""

    product: str | None = None
    """Product name, such as NVIDIA-A10G."""

    family: str | None = None
    """Product family, such as Ampere."""

    memory: Quantity | None = None
    """Memory of one accelerator, such as 24Gi."""

    cores: Quantity | None = None
    """Compute cores of one accelerator, such as 10240."""

    sliceable: bool | None = None
    """Whether one accelerator can be shared by several containers in slices."""


class InstanceTypeFlavor(CustomResource):
    """A kind of hardware this cluster has, whatever the operating system and number of nodes. Kept by the operator;
    nobody else may write it."""

    spec: InstanceTypeFlavorSpec


DEFINITION = Definition(
    resource=INSTANCE_TYPE_FLAVORS,
    model=InstanceTypeFlavor,
    short_names=("instypeflavor",),
    status=False,
    columns=(
        Column("GeneralGroup", ".spec.generalGroup", "CPU group."),
        Column("AcceleratorGroup", ".spec.acceleratorGroup", "Accelerator group."),
        Column("Acceleratable", ".spec.acceleratable", "Whether there are accelerators.", type="boolean"),
        Column("Manufacturer", ".spec.manufacturer", "Manufacturer."),
        Column("Product", ".spec.product", "Product name."),
        Column("Memory", ".spec.memory", "Memory of one accelerator."),
        Column("Cores", ".spec.cores", "Compute cores of one accelerator."),
        Column("Sliceable", ".spec.sliceable", "Whether one accelerator can be sliced.", type="boolean"),
    ),
)
