"""Reading and changing objects as plain JSON: what the server holds, and not what our own caches keep of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from gpustack_op.api.core import NAMESPACES, NODES
from gpustack_op.api.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from gpustack_op.api.meta import PartialObject, Resource
from gpustack_op.api.nfd import NODE_FEATURES
from gpustack_op.api.worker import DEVICES, INSTANCE_TYPE_FLAVORS, INSTANCE_TYPES
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.errors import NotFound
from gpustack_op.runtime.paths import collection_path, object_path

__all__ = [
    "CLUSTER_QUEUES",
    "DEVICES",
    "EVENTS",
    "INSTANCE_TYPES",
    "INSTANCE_TYPE_FLAVORS",
    "LOCAL_QUEUES",
    "NAMESPACES",
    "NODES",
    "NODE_FEATURES",
    "PODS",
    "RESOURCE_FLAVORS",
    "SYSTEM",
    "WORKLOADS",
    "Looking",
]

SYSTEM: Final = "gpustack-system"
PODS: Final = Resource("", "v1", "pods", "Pod", PartialObject, namespaced=True)
EVENTS: Final = Resource("events.k8s.io", "v1", "events", "Event", PartialObject, namespaced=True)

Object = dict[str, Any]


class Looking:
    def __init__(self, client: Client) -> None:
        self.client = client

    async def find(self, resource: Resource[Any], name: str, namespace: str = "") -> Object:
        """Empty when there is none of this name."""
        try:
            found: Object = json.loads(await self.client.raw("GET", object_path(resource, name, namespace)))
        except NotFound:
            return {}
        return found

    async def all(self, resource: Resource[Any], namespace: str = "", **query: str) -> list[Object]:
        answer = json.loads(await self.client.raw("GET", collection_path(resource, namespace), params=query))
        items: list[Object] = answer["items"]
        return items

    async def names(self, resource: Resource[Any], namespace: str = "") -> list[str]:
        """In order; with the namespace in front where the kind has one and none was asked for."""
        items = await self.all(resource, namespace)
        return sorted(full_name(item) if not namespace else item["metadata"]["name"] for item in items)

    async def labels(self, resource: Resource[Any], name: str, namespace: str = "") -> Mapping[str, str]:
        found = await self.find(resource, name, namespace)
        labels: Mapping[str, str] = found.get("metadata", {}).get("labels", {})
        return labels

    async def view(self, type_: str) -> str:
        """The two columns of its row that say what is free: `EX SH SL PT CPU`."""
        return views((await self.find(INSTANCE_TYPES, type_)).get("status", {}))

    async def phase_message(self, type_: str) -> str:
        found = await self.find(INSTANCE_TYPES, type_)
        return str(found.get("status", {}).get("phaseMessage", ""))

    async def told(self, kind: str, name: str, *, reason: str) -> list[str]:
        """What Events of a reason say about an object."""
        wanted = (kind, name, reason)
        return [
            str(event.get("note"))
            for event in await self.all(EVENTS)
            if (event["regarding"].get("kind"), event["regarding"].get("name"), event["reason"]) == wanted
        ]


def full_name(item: Object) -> str:
    metadata = item["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else str(metadata["name"])


def views(status: Mapping[str, Any]) -> str:
    """`1/1 1/10 100/100 0/0 0/0`: of each view, cards before CPUs, what one may ask for at once, and what is free."""
    summary = status.get("summary", {})
    return f"{summary.get('accelerator')} {summary.get('cpu')}"
