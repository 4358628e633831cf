"""Which Kueue objects are ours, and how ours name their owner."""

from __future__ import annotations

from typing import Any

from gpustack_op.api.meta import KubeObject, Resource
from gpustack_op.scheduling import labels


def is_pool(queue: KubeObject) -> bool:
    """Whether a ClusterQueue carries our marker. One that does not is never adopted, whatever its name."""
    return queue.labels.get(labels.RESOURCE_TYPE) == labels.TYPE_POOL


def is_anothers(obj: KubeObject, uid: str) -> bool:
    """Whether something else controls the object: an apply would add a second controlling owner, which is refused."""
    return any(owner.controller and owner.uid != uid for owner in obj.metadata.owner_references or ())


def controller_reference(owner: KubeObject, resource: Resource[Any]) -> dict[str, Any]:
    """An ownerReference that makes the garbage collector remove the object with its owner."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
    }
