"""Takes the product out of a cluster: what the operator made goes, and no finalizer of ours keeps an object alive.

Guarantees   Only what carries our marks is touched. Queues drain before they go, for as long as `patience` lasts;
             whatever runs through them is evicted. A kind that is not served, or an object that went meanwhile, is
             nothing to do. Running it twice, or again after it was cut off, ends in the same state.
Assumptions  No operator and no agent runs any more: they would put everything back. The caller may delete all of this.
Recovery     What could not be removed in time is named, and a second run goes on from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from gpustack_op.api.core import NODES, SECRETS, Node
from gpustack_op.api.kueue import ADMISSION_CHECKS, CLUSTER_QUEUES, RESOURCE_FLAVORS, TOPOLOGIES
from gpustack_op.api.meta import KubeObject, PartialObject, Resource
from gpustack_op.api.nfd import NODE_FEATURE_RULES, NODE_FEATURES
from gpustack_op.api.worker import DEVICES, INSTANCE_TYPE_FLAVORS, INSTANCE_TYPES, SETTINGS
from gpustack_op.operator.node_capacity import is_counting
from gpustack_op.operator.ownership import is_pool
from gpustack_op.operator.queue_stages import holds_nothing, kueue_has_seen
from gpustack_op.operator.webhooks.hooks import STORED_PAIR, registrations
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.errors import Conflict, NotFound
from gpustack_op.runtime.finalizers import remove_finalizer
from gpustack_op.scheduling import labels, names
from gpustack_op.scheduling.fit_labels import is_fit_label

PAUSE = 0.5
"""Seconds between two looks at what is still draining."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Kind:
    """One collection and which of its objects are ours."""

    resource: Resource[Any]
    ours: Callable[[KubeObject], bool]
    namespace: str = ""


class Cleanup:
    """`patience` in seconds for queues to drain; `say` is told what went and what did not."""

    def __init__(self, client: Client, *, namespace: str, patience: float, say: Say) -> None:
        self.client = client
        self.namespace = namespace
        self.patience = patience
        self.say = say

    async def run(self) -> bool:
        """Whether everything is gone."""
        for registration in registrations(self.namespace):  # first, since no operator answers them any more
            await self._remove(Kind(registration.resource, _named(registration.name)))
        await self._request_end_of_types()
        drained = await self._remove_queues()
        await self._release_types()
        leftovers = self._leftovers()
        for kind in leftovers:
            await self._remove(kind)
        await self._unmark_nodes()
        return drained and await self._are_gone(leftovers)

    def _leftovers(self) -> list[Kind]:
        """What leans on nothing of ours any more, once the queues are gone."""
        worker = _labelled(labels.PART_OF, names.WORKER_PART_OF)
        agent = _labelled(labels.PART_OF, names.DEVICE_MANAGER_PART_OF)
        return [
            Kind(RESOURCE_FLAVORS, _labelled(labels.RESOURCE_TYPE, labels.TYPE_FLAVOR)),
            Kind(TOPOLOGIES, _labelled(labels.RESOURCE_TYPE, labels.TYPE_TOPOLOGY)),
            Kind(ADMISSION_CHECKS, _named(names.NODE_DEVICES_CHECK)),
            Kind(INSTANCE_TYPE_FLAVORS, _any),
            Kind(NODE_FEATURE_RULES, _named(names.NODE_FEATURE_RULE)),
            Kind(NODE_FEATURES, lambda feature: worker(feature) or agent(feature), self.namespace),
            Kind(DEVICES, _any),
            Kind(SETTINGS, _any, self.namespace),
            Kind(SECRETS, _named(names.SETTINGS_SECRET, STORED_PAIR), self.namespace),
        ]

    async def _request_end_of_types(self) -> None:
        """Deletes the types; their finalizer holds them until their queues are gone."""
        await self._remove(Kind(INSTANCE_TYPES, _any))

    async def _remove_queues(self) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.patience
        while queues := [queue for queue in await self._all(CLUSTER_QUEUES) if is_pool(queue)]:
            for queue in queues:
                with suppress(NotFound, Conflict):
                    await self._drain(queue)
            if loop.time() > deadline:
                self.say(f"still draining after {self.patience:g} s: {_listed(queues)}; run it again")
                return False
            await asyncio.sleep(PAUSE)
        return True

    async def _are_gone(self, kinds: Sequence[Kind]) -> bool:
        """Kueue lets go of a flavor or topology a moment after what used it went."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.patience
        while left := [ours for kind in kinds for ours in await self._ours(kind)]:
            if loop.time() > deadline:
                self.say(f"still there after {self.patience:g} s: {_listed(left)}; run it again")
                return False
            await asyncio.sleep(PAUSE)
        return True

    async def _ours(self, kind: Kind) -> list[Any]:
        return [each for each in await self._all(_partial(kind.resource), kind.namespace) if kind.ours(each)]

    async def _drain(self, queue: Any) -> None:
        if queue.spec.stop_policy != "HoldAndDrain":
            patch = {"metadata": {"uid": queue.uid}, "spec": {"stopPolicy": "HoldAndDrain"}}
            await self.client.merge_patch(CLUSTER_QUEUES, queue.name, patch)
        elif not queue.deleting and kueue_has_seen(queue) and holds_nothing(queue):
            await self.client.delete(CLUSTER_QUEUES, queue.name, uid=queue.uid)
            self.say(f"{CLUSTER_QUEUES.kind}: removed {queue.name}")

    async def _release_types(self) -> None:
        for type_ in await self._all(_partial(INSTANCE_TYPES)):
            await remove_finalizer(self.client, _partial(INSTANCE_TYPES), type_, labels.CONTROLLED_FINALIZER)

    async def _unmark_nodes(self) -> None:
        for node in await self._all(NODES):
            with suppress(NotFound):
                if marks := _marks(node):
                    patch = {"metadata": {"uid": node.uid, **marks}}
                    await self.client.merge_patch(NODES, node.name, patch)
                if counted := [key for key in node.status.capacity or () if is_counting(key)]:
                    capacity = {"status": {"capacity": dict.fromkeys(counted)}}
                    await self.client.merge_patch(NODES, node.name, capacity, subresource="status")

    async def _remove(self, kind: Kind) -> None:
        resource = _partial(kind.resource)
        removed = [present for present in await self._ours(kind) if not present.deleting]
        for present in removed:
            with suppress(NotFound):
                await self.client.delete(resource, present.name, present.namespace, uid=present.uid)
        if removed:
            self.say(f"{resource.kind}: removed {_listed(removed)}")

    async def _all(self, resource: Resource[Any], namespace: str = "") -> list[Any]:
        try:
            return await self.client.list(resource, namespace)
        except NotFound:
            return []  # the kind is not served


def _marks(node: Node) -> dict[str, dict[str, None]]:
    """What has to go of our annotations and labels."""
    labelled = [key for key in node.labels if is_fit_label(key)]
    marks = {"annotations": {labels.MANAGED: None}} if labels.MANAGED in node.annotations else {}
    return marks | ({"labels": dict.fromkeys(labelled)} if labelled else {})


def _partial(resource: Resource[Any]) -> Resource[PartialObject]:
    """Only metadata is decoded, so that an object with nonsense in its spec can go too."""
    return replace(resource, model=PartialObject)


def _any(_present: KubeObject) -> bool:
    return True


def _named(*wanted: str) -> Callable[[KubeObject], bool]:
    return lambda present: present.name in wanted


def _labelled(key: str, value: str) -> Callable[[KubeObject], bool]:
    return lambda present: present.labels.get(key) == value


def _listed(objects: Iterable[KubeObject]) -> str:
    return ", ".join(sorted(present.name for present in objects))
