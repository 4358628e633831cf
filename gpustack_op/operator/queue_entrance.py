"""Keeps an entrance (LocalQueue) to every pool in every open namespace.

Owns      LocalQueues named by the hash of their pool's name and controlled by that pool's ClusterQueue.
Never     touches any other LocalQueue, nor a closed namespace.
Woken by  ClusterQueue (primary), its own LocalQueues, a Namespace that appears or ends.
Promises  a missing or edited entrance is put back; a settled cluster sees no write.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from gpustack_op.api.core import Namespace
from gpustack_op.api.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, ClusterQueue, LocalQueue
from gpustack_op.operator.informers import Informers
from gpustack_op.operator.namespaces import is_open
from gpustack_op.operator.ownership import controller_reference, is_anothers, is_pool
from gpustack_op.runtime.apply import NotOursError, Writer
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.controller import DONE, Request, Result, TryAgainError
from gpustack_op.runtime.errors import Conflict, Forbidden, Invalid, NotFound
from gpustack_op.runtime.events import Recorder
from gpustack_op.scheduling import labels, names

REFUSALS = (Forbidden, Invalid, Conflict, NotOursError, TryAgainError)
"""What concerns one namespace alone, such as its quota, and must not close the others."""


def wanted_entrance(pool: ClusterQueue, namespace: Namespace) -> dict[str, Any]:
    return {
        "metadata": {
            "name": names.entrance(pool.name),
            "namespace": namespace.name,
            "labels": {labels.RESOURCE_TYPE: labels.TYPE_ENTRANCE},
            "annotations": {labels.QUEUE_ANNOTATION: pool.name},
            "ownerReferences": [controller_reference(pool, CLUSTER_QUEUES)],
        },
        "spec": {"clusterQueue": pool.name, "stopPolicy": "None"},
    }


def is_entrance_of(queue: LocalQueue, pool: ClusterQueue) -> bool:
    """Ours is what carries our marker and leads to the pool, also when its owner was an earlier pool of that name."""
    return queue.labels.get(labels.RESOURCE_TYPE) == labels.TYPE_ENTRANCE and queue.spec.cluster_queue == pool.name


class QueueEntranceReconciler:
    name = "queue-entrance"

    def __init__(
        self, informers: Informers, client: Client, writer: Writer, recorder: Recorder, *, system_namespace: str
    ) -> None:
        self.informers = informers
        self.client = client
        self.writer = writer
        self.recorder = recorder
        self.system_namespace = system_namespace

    async def reconcile(self, request: Request) -> Result:
        pool = self.informers.queues.get(request.name)
        if pool is None or pool.deleting or not is_pool(pool):
            return DONE  # the entrances are garbage-collected with their pool
        refusals: list[Exception] = []
        for namespace in self.informers.namespaces.all():
            if is_open(namespace, self.system_namespace):
                try:
                    await self._keep(pool, namespace)
                except REFUSALS as refusal:
                    refusals.append(refusal)
        if refusals:
            raise refusals[0]
        return DONE

    async def _keep(self, pool: ClusterQueue, namespace: Namespace) -> None:
        present = self.informers.local_queues.get(names.entrance(pool.name), namespace.name)
        if present is not None and present.deleting:
            return
        if present is not None and not (present.controlled_by(pool.uid) or is_entrance_of(present, pool)):
            self._report_foreign(pool, present)
            return
        with suppress(NotFound):  # the namespace ended meanwhile
            if present is not None and is_anothers(present, pool.uid):
                present = await self._take_over(pool, present)
            await self.writer.converge(LOCAL_QUEUES, wanted_entrance(pool, namespace), present)

    async def _take_over(self, pool: ClusterQueue, present: LocalQueue) -> LocalQueue:
        """From an earlier pool of the name."""
        metadata = {
            "ownerReferences": [controller_reference(pool, CLUSTER_QUEUES)],
            "resourceVersion": present.metadata.resource_version,
        }
        return await self.client.merge_patch(
            LOCAL_QUEUES,
            present.name,
            {"metadata": metadata},
            namespace=present.namespace,
            field_manager=self.writer.field_manager,
        )

    def _report_foreign(self, pool: ClusterQueue, present: LocalQueue) -> None:
        self.recorder.event(
            pool,
            "Warning",
            "EntranceOccupied",
            f'LocalQueue "{present.namespace}/{present.name}" was not made by this operator and is left alone; '
            f"delete it to open the pool to namespace {present.namespace}",
            action="KeepEntrance",
        )

    def pools_of_namespace(self, namespace: Namespace) -> list[Request]:
        """A namespace that appears wants an entrance to every pool."""
        return [Request(pool.name) for pool in self.informers.queues.all() if is_pool(pool)]
