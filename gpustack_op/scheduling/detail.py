"""`status.detail` of an InstanceType: the hardware as the nodes report it now.

Promises  A pool that joins every CPU has no detail, nor has one without a flavor. Nothing here moves with allocations.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpustack_op.api.kueue import ResourceFlavor
from gpustack_op.api.worker import DeviceGroup, Devices, InstanceTypeSpec, SlicedDetail
from gpustack_op.scheduling.flavor_facts import FlavorFacts, live_facts
from gpustack_op.scheduling.hardware import cards_of, pool_groups
from gpustack_op.scheduling.manufacturers import GENERIC
from gpustack_op.scheduling.pools import feeds, type_labels
from gpustack_op.scheduling.sliced_detail import sliced_detail


def detail(spec: InstanceTypeSpec, flavors: Iterable[ResourceFlavor], devices: Iterable[Devices]) -> dict[str, Any]:
    """The detail as JSON; empty when there is nothing to tell."""
    pool_labels = type_labels(spec)
    described = next(iter(live_facts(flavor for flavor in flavors if feeds(flavor, pool_labels))), None)
    joins_cpus = (spec.general_group or GENERIC) == GENERIC
    if described is None or (joins_cpus and not described.accelerator_group):
        return {}
    if not described.accelerator_group:
        return _known({**_identity(described), **described.cpu_detail})
    groups = pool_groups(devices, pool_labels, described.accelerator_group)
    cards = _cards(described, groups)
    return _known({**_identity(described), **cards, "cpu": None if joins_cpus else described.cpu_detail})


def runtime_versions(groups: Iterable[DeviceGroup]) -> list[str]:
    """The distinct versions, lowest first, compared as numbers: `9` is `9.0` and comes before `12.8`."""
    found: dict[tuple[int, ...], str] = {}
    for text in sorted({group.runtime_version for group in groups}, key=lambda text: (len(text), text)):
        version = _version(text)
        if version:
            found.setdefault(version, text)
    return [found[version] for version in sorted(found)]


def sliced_json(capability: SlicedDetail | None) -> dict[str, Any]:
    if capability is None:
        return {}
    logical, physical = capability.logical, capability.physical
    return _known(
        {
            "logical": logical
            and {"count": logical.count, "coresPercentageOvercommit": logical.cores_percentage_overcommit},
            "physical": physical
            and {
                "count": physical.count,
                "profiles": [
                    {"name": p.name, "count": p.count, "memoryMib": p.memory_mib}
                    for p in sorted(physical.profiles or (), key=lambda p: p.name)
                ],
            },
        }
    )


def _identity(facts: FlavorFacts) -> dict[str, Any]:
    return {"manufacturer": facts.manufacturer, "product": facts.product, "family": facts.family}


def _cards(facts: FlavorFacts, groups: list[DeviceGroup]) -> dict[str, Any]:
    versions = runtime_versions(groups)
    capabilities = {group.compute_capability for group in groups}
    return {
        "memory": facts.memory,
        "cores": facts.cores,
        "computeCapability": next(iter(capabilities)) if len(capabilities) == 1 else None,
        "runtimeVersion": versions[0] if versions else None,
        "runtimeVersions": versions,
        "slicedDetail": sliced_json(sliced_detail(cards_of(groups))),
    }


def _version(text: str) -> tuple[int, ...]:
    """Numbers without trailing zeros, at least one; empty when the text is no version."""
    parts = text.split(".")
    if not all(part.isascii() and part.isdecimal() and len(part) <= 9 for part in parts):
        return ()
    numbers = [int(part) for part in parts]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _known(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, "", {}, [])}
