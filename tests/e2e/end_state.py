"""The whole outcome of the chain as one value: two clusters that came to the same end are equal in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.e2e.looking import (
    CLUSTER_QUEUES,
    INSTANCE_TYPE_FLAVORS,
    INSTANCE_TYPES,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    Looking,
    full_name,
)

COMPARED: Final = (INSTANCE_TYPES, CLUSTER_QUEUES, LOCAL_QUEUES, INSTANCE_TYPE_FLAVORS)

EACH_TIME_ANEW: Final = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
"""Metadata that tells one object from another of the same content, or only how it came about."""

Object = dict[str, Any]
EndState = Mapping[str, Object]


async def end_state(looking: Looking) -> EndState:
    """Every object that the flip of a setting makes, changes or removes."""
    return {f"{kind.kind} {full_name(item)}": lasting(item) for kind in COMPARED for item in await looking.all(kind)}


async def flavors_to_the_byte(looking: Looking) -> list[Object]:
    """With their versions, by which even a write that changes nothing but a manager's timestamp shows."""
    return await looking.all(RESOURCE_FLAVORS)


def lasting(item: Object) -> Object:
    """Of Kueue's status nothing, since it counts and dates what went by."""
    metadata = {key: value for key, value in item["metadata"].items() if key not in EACH_TIME_ANEW}
    metadata["ownerReferences"] = [{**owner, "uid": ""} for owner in metadata.get("ownerReferences", [])]
    kept = {"metadata": metadata, "spec": item.get("spec")}
    if item["apiVersion"].startswith("worker.gpustack.ai/"):
        kept["status"] = item.get("status")
    return kept


def difference(expected: EndState, seen: EndState) -> list[str]:
    """What differs, for a person; empty when nothing does."""
    names = sorted(expected.keys() | seen.keys())
    return [
        f"{name}: expected {expected.get(name)}, is {seen.get(name)}"
        for name in names
        if expected.get(name) != seen.get(name)
    ]
