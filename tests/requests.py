"""Pods as people write them, with as little as matters: containers and what they request."""

from __future__ import annotations

from typing import Any

from gpustack_op.scheduling.breaches import Breach
from gpustack_op.scheduling.pool_facts import PoolFacts

GPU = "nvidia.com/gpu"
SLICED, SHARED, PARTITIONED = f"{GPU}.sliced", f"{GPU}.shared", f"{GPU}.partitioned"
UNITS, CORES = f"{SLICED}.units", f"{SLICED}.cores-percentage"
PERCENT, MIB = f"{SLICED}.memory-percentage", f"{SLICED}.memory-mib"
PARTITION_UNITS = f"{PARTITIONED}.units"

A10G = PoolFacts(name="gpustack--nvidia-a10g-linux-amd64", accelerator_group="nvidia-a10g", memory=24576, detailed=True)
H100 = PoolFacts(
    name="h100",
    accelerator_group="nvidia-h100",
    memory=98304,
    detailed=True,
    profiles={"1g.12gb": 12288, "4g.48gb": 49152, "7g.96gb": 98304},
)
CPUS = PoolFacts(name="gpustack--generic-linux-amd64")


def mig(profile: str) -> str:
    return f"{PARTITIONED}.mig-{profile}"


def container(name: str = "main", /, *, sidecar: bool = False, **fields: Any) -> dict[str, Any]:
    """`requests` go to limits, too, as the API server demands for accelerators."""
    built: dict[str, Any] = {"name": name, "image": "pause"}
    if requests := fields.pop("requests", None):
        amounts = {resource: str(amount) for resource, amount in requests.items()}
        built["resources"] = {"requests": amounts, "limits": dict(amounts)}
    if sidecar:
        built["restartPolicy"] = "Always"
    return built | fields


def asking(name: str = "main", /, *, sidecar: bool = False, **amounts: Any) -> dict[str, Any]:
    """A container that requests resources by the names of this module: `asking(gpu=1)`."""
    names = {
        "gpu": GPU, "shared": SHARED, "sliced": SLICED, "units": UNITS, "cores": CORES, "percent": PERCENT, "mib": MIB,
        "partitioned": PARTITIONED, "partition_units": PARTITION_UNITS, "cpu": "cpu",
    }  # fmt: skip
    return container(name, sidecar=sidecar, requests={names[short]: amount for short, amount in amounts.items()})


def partition(profile: str, name: str = "main") -> dict[str, Any]:
    return container(name, requests={PARTITIONED: 1, mig(profile): 1})


def pod(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), **fields: Any) -> dict[str, Any]:
    """A Pod's spec."""
    return {"containers": list(containers)} | ({"initContainers": list(init)} if init else {}) | fields


def told(breaches: list[Breach]) -> list[str]:
    return [f"{each.field}: {each.fault.value}: {each.detail}" for each in breaches]
