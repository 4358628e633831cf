"""Finds the pool that a queue name leads to.

Guarantees   An entrance is judged by the InstanceType that carries its name, never by the LocalQueue, which others may
             write. A LocalQueue of another name that leads into a pool of ours is no way around its rules.
Assumptions  An entrance's name is told from others by its prefix.
Recovery     A type too new for the cache is asked of the API server. Until the caches are read, the request may come
             again.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from gpustack_op.api.meta import KubeObject, Resource
from gpustack_op.api.worker import INSTANCE_TYPES, InstanceType
from gpustack_op.operator.informers import Informers
from gpustack_op.operator.webhooks.instance_type import SYNC_SECONDS, unsynced_after
from gpustack_op.runtime.selector import Selector
from gpustack_op.runtime.webhook.review import RefusalError, Verdict, unavailable
from gpustack_op.scheduling import labels, names
from gpustack_op.scheduling.pool_facts import PoolFacts

T = TypeVar("T", bound=KubeObject)


class Lister(Protocol):
    """The part of a client that this needs."""

    async def list(self, resource: Resource[T], *, selector: Selector) -> list[T]: ...


class Fronting:
    def __init__(self, informers: Informers, client: Lister) -> None:
        self.informers = informers
        self.client = client

    async def pool(self, queue: str, namespace: str) -> PoolFacts | None:
        """The pool, or None when the queue is not one of ours. Raises when it should be, and cannot be found."""
        waiting = await unsynced_after(
            SYNC_SECONDS, self.informers.types, self.informers.flavors, self.informers.local_queues
        )
        if waiting:
            message = f"local queue {queue} cannot be judged yet: still reading {', '.join(waiting)}; try again"
            raise RefusalError(unavailable(message))
        found = await self._fronting(queue) if names.is_entrance(queue) else self._behind(queue, namespace)
        return PoolFacts.of(found, self.informers.flavors.all()) if found else None

    async def _fronting(self, queue: str) -> InstanceType:
        types = [each for each in self.informers.types.all() if each.labels.get(labels.QUEUE_ENTRANCE) == queue]
        if not types:
            selector = Selector(labels=f"{labels.QUEUE_ENTRANCE}={queue}")
            types = await self.client.list(INSTANCE_TYPES, selector=selector)
        if len(types) != 1:
            number = "more than one instance type fronts" if types else "no instance type fronts"
            raise RefusalError(Verdict(allowed=False, message=f"{number} local queue {queue}"))
        return types[0]

    def _behind(self, queue: str, namespace: str) -> InstanceType | None:
        local = self.informers.local_queues.get(queue, namespace)
        return self.informers.types.get(local.spec.cluster_queue) if local else None
