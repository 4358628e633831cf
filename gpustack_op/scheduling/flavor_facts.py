"""A ResourceFlavor of ours read back: the hardware its notes tell of, and how much of it there is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gpustack_op.api.kueue import ResourceFlavor
from gpustack_op.scheduling import cpu_detail, labels

Detail = cpu_detail.Detail


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorFacts:
    """`count` is one node's cores or cards, `capacity` all nodes'; what is not told is empty or 0."""

    name: str
    os: str = ""
    arch: str = ""
    acceleratable: bool = False
    general_group: str = ""
    accelerator_group: str = ""
    manufacturer: str = ""
    product: str = ""
    family: str = ""
    memory: str = ""
    cores: str = ""
    cpu_detail: Detail = field(default_factory=dict)
    count: int = 0
    capacity: int = 0

    @staticmethod
    def of(flavor: ResourceFlavor) -> FlavorFacts:
        notes = {name: flavor.annotations.get(labels.note(name), "") for name in _NOTES}
        general, accelerator = notes["generalGroup"], notes["acceleratorGroup"]
        own = labels.accelerator if accelerator else labels.general
        return FlavorFacts(
            name=flavor.name,
            os=flavor.labels.get(labels.OS, ""),
            arch=flavor.labels.get(labels.ARCH, ""),
            acceleratable=notes["acceleratable"] == labels.TRUE,
            general_group=general,
            accelerator_group=accelerator,
            manufacturer=notes["manufacturer"],
            product=notes["product"],
            family=notes["family"],
            memory=notes["memory"],
            cores=notes["cores"],
            cpu_detail=cpu_detail.read(notes["cpuDetail"]),
            count=_number((flavor.spec.node_labels or {}).get(own(accelerator or general, "count"), "")),
            capacity=_number(flavor.labels.get(own(accelerator or general, "capacity"), "")),
        )


_NOTES = (
    *("acceleratable", "generalGroup", "acceleratorGroup"),
    *("manufacturer", "product", "family", "memory", "cores", "cpuDetail"),
)


def is_ours(flavor: ResourceFlavor) -> bool:
    """Whether the flavor was made from nodes by the operator; any other is left alone."""
    return flavor.labels.get(labels.RESOURCE_TYPE) == labels.TYPE_FLAVOR


def live_facts(flavors: Iterable[ResourceFlavor]) -> list[FlavorFacts]:
    """Our flavors that stay, by name."""
    live = (FlavorFacts.of(flavor) for flavor in flavors if is_ours(flavor) and not flavor.deleting)
    return sorted(live, key=lambda facts: facts.name)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else 0
