"""A cluster in memory for the operator's reconcilers: every write is seen by their caches at once.

The API server is `MemoryApi`; on top of it come generations, finalizers, and informers that follow.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, cast

import msgspec

from gpustack_op.api.core import NAMESPACES, NODES, SECRETS
from gpustack_op.api.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOADS,
    ClusterQueue,
    ResourceFlavor,
)
from gpustack_op.api.meta import KubeObject, Resource
from gpustack_op.api.nfd import NODE_FEATURE_RULES, NODE_FEATURES
from gpustack_op.api.worker import DEVICES, INSTANCE_TYPE_FLAVORS, INSTANCE_TYPES, SETTINGS
from gpustack_op.operator.informers import Informers
from gpustack_op.operator.settings.live import LiveSettings
from gpustack_op.operator.settings.sources import Sources
from gpustack_op.runtime.apply import Writer
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.events import Recorder
from gpustack_op.runtime.informer import Informer
from gpustack_op.runtime.selector import EVERYTHING
from gpustack_op.scheduling.names import SETTINGS_SECRET, SYSTEM_NAMESPACE
from tests.runtime.memory_api import Json, MemoryApi

WATCHED: Mapping[str, Resource[Any]] = {
    "nodes": NODES,
    "node_features": NODE_FEATURES,
    "rules": NODE_FEATURE_RULES,
    "devices": DEVICES,
    "flavors": RESOURCE_FLAVORS,
    "topologies": TOPOLOGIES,
    "queues": CLUSTER_QUEUES,
    "local_queues": LOCAL_QUEUES,
    "checks": ADMISSION_CHECKS,
    "workloads": WORKLOADS,
    "namespaces": NAMESPACES,
    "types": INSTANCE_TYPES,
    "catalog": INSTANCE_TYPE_FLAVORS,
}
"""By the informer's name."""

ENDING = "2026-01-01T00:00:00Z"


@dataclass
class Told:
    """A recorder that keeps what it is told, as `(reason, message)`."""

    events: list[tuple[str, str]] = field(default_factory=list)

    def event(self, _regarding: Any, _type: str, reason: str, message: str, **_: Any) -> None:
        self.events.append((reason, message))


class MemoryCluster(MemoryApi):
    def __init__(self) -> None:
        super().__init__()
        self.informers = Informers(
            **{each.name: Informer(WATCHED[each.name], EVERYTHING) for each in fields(Informers)}
        )
        secrets, settings = Informer(SECRETS, EVERYTHING), Informer(SETTINGS, EVERYTHING)
        self._sources = Sources(secrets, settings, SYSTEM_NAMESPACE)
        self._followers: dict[str, Informer[Any]] = {
            **{resource.plural: getattr(self.informers, name) for name, resource in WATCHED.items()},
            SECRETS.plural: secrets,
            SETTINGS.plural: settings,
        }
        for informer in self._followers.values():
            informer._synced.set()  # an empty cluster is known to be empty
        self.settings = LiveSettings(self._sources)
        self.told = Told()

    @property
    def client(self) -> Client:
        return cast(Client, self)

    @property
    def recorder(self) -> Recorder:
        return cast(Recorder, self.told)

    def writer(self) -> Writer:
        return Writer(self, "the-operator")

    # --- what others do

    def add(self, *objects: KubeObject) -> None:
        """Objects of somebody else, as builders make them."""
        for each in objects:
            self.put(self._resource(each), without_nones(msgspec.to_builtins(each)))

    def patch(self, resource: Resource[Any], name: str, patch: Json, *, namespace: str = "") -> None:
        """As somebody else."""
        key = (resource.plural, namespace, name)
        self._store(key, merged(self.objects[key], patch))

    def remove(self, resource: Resource[Any], name: str, *, namespace: str = "") -> None:
        """Somebody else deletes it; a finalizer keeps it."""
        self._remove((resource.plural, namespace, name))

    def lag(self, resource: Resource[Any]) -> None:
        """From now on the cache of this kind is not told of anything."""
        self._followers.pop(resource.plural)

    def kueue_has_seen(self, queue: str, **status: Any) -> None:
        """Kueue's verdict on the stored generation; `status` is what it reports besides."""
        stored = self.objects[(CLUSTER_QUEUES.plural, "", queue)]
        stopped = stored["spec"]["stopPolicy"] != "None"
        active = {
            "type": "Active",
            "status": "False" if stopped else "True",
            "reason": "Stopped" if stopped else "Ready",
            "observedGeneration": stored["metadata"]["generation"],
        }
        self.patch(CLUSTER_QUEUES, queue, {"status": {"conditions": [active], **status}})

    def set(self, **texts: str) -> None:
        """Settings, with `_` for `-`."""
        data = {name.replace("_", "-"): base64.b64encode(text.encode()).decode() for name, text in texts.items()}
        self.put(SECRETS, {"metadata": {"name": SETTINGS_SECRET, "namespace": SYSTEM_NAMESPACE}, "data": data})

    # --- what is there

    def names(self, resource: Resource[Any]) -> list[str]:
        return sorted(name for plural, _, name in self.objects if plural == resource.plural)

    def queue(self, name: str) -> ClusterQueue:
        return self.read(CLUSTER_QUEUES, name)

    def flavor(self, name: str) -> ResourceFlavor:
        return self.read(RESOURCE_FLAVORS, name)

    def writes_since(self) -> list[str]:
        """The writes since this was asked last, reads aside, as `verb name`."""
        told = [f"{verb} {name}" for verb, name in self.calls if verb != "get"]
        self.calls.clear()
        return told

    # --- inside

    async def delete(self, resource: Resource[Any], name: str, namespace: str = "", **preconditions: Any) -> None:
        key = (resource.plural, namespace, name)
        kept = self.objects.get(key)
        await super().delete(resource, name, namespace, **preconditions)
        assert kept is not None
        self.objects[key] = kept
        self._remove(key)

    def _remove(self, key: tuple[str, str, str]) -> None:
        stored = self.objects[key]
        if stored["metadata"].get("finalizers"):
            self._store(key, merged(stored, {"metadata": {"deletionTimestamp": ENDING}}))
            return
        del self.objects[key]
        self._version += 1
        if key[0] in self._followers:
            stored["metadata"]["resourceVersion"] = str(self._version)
            informer = self._followers[key[0]]
            informer.remove(msgspec.convert(stored, informer.resource.model))

    def _store(self, key: tuple[str, str, str], body: Json) -> Json:
        before = self.objects.get(key)
        generation = before["metadata"]["generation"] if before else 0
        if before is None or before.get("spec") != body.get("spec"):
            generation += 1
        stored = super()._store(key, {**body, "metadata": {**body["metadata"], "generation": generation}})
        if stored["metadata"].get("deletionTimestamp") and not stored["metadata"].get("finalizers"):
            self._remove(key)
        elif key[0] in self._followers:
            informer = self._followers[key[0]]
            informer.put(msgspec.convert(stored, informer.resource.model))
        return stored

    def _resource(self, obj: KubeObject) -> Resource[Any]:
        return next(resource for resource in WATCHED.values() if isinstance(obj, resource.model))


def merged(target: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def without_nones(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nones(item) for key, item in value.items() if item is not None}
    return [without_nones(item) for item in value] if isinstance(value, list | tuple) else value
