"""Pins Workloads that came while the webhook was away to the nodes of which one card has the room they ask for.

Owns      the expressions over fit labels in the affinity of a Workload's PodSets.
Never     touches a Workload that holds quota: its PodSets may not change any more.
Woken by  Workloads (primary), InstanceTypes.
Promises  the same pin as the webhook's; a pinned Workload sees no write.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gpustack_op.api.kueue import GROUP, VERSION, WORKLOADS, Workload
from gpustack_op.api.meta import KubeObject, Resource
from gpustack_op.operator.informers import Informers
from gpustack_op.operator.ownership import is_pool
from gpustack_op.operator.settings.live import LiveSettings
from gpustack_op.runtime.cache import Change
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.controller import DONE, Request, Result
from gpustack_op.runtime.errors import Forbidden, NotFound
from gpustack_op.runtime.reconciler import TryAgainError
from gpustack_op.scheduling import names
from gpustack_op.scheduling.fit_pin import fit_expressions, fit_pinned
from gpustack_op.scheduling.promises import is_true

Json = dict[str, Any]


class WholeWorkload(KubeObject, frozen=True, gc=False, kw_only=True):
    """With all of its spec, since a merge patch replaces lists."""

    spec: dict[str, Any] = msgspec.field(default_factory=dict)


WHOLE_WORKLOADS = Resource(
    GROUP, VERSION, "workloads", "Workload", WholeWorkload, namespaced=True, annotations=("gpustack.ai/",)
)


class FitPin:
    """Which accelerator key a queue leads to, as far as the caches know; nothing is waited for."""

    def __init__(self, informers: Informers, settings: LiveSettings) -> None:
        self.informers = informers
        self.settings = settings

    def key(self, queue: str, namespace: str) -> str:
        """Empty where no Workload is to be pinned."""
        if not (names.is_entrance(queue) and self.settings.current.workload_fit_affinity):
            return ""
        entrance = self.informers.local_queues.get(queue, namespace)
        pool = self.informers.queues.get(entrance.spec.cluster_queue) if entrance else None
        type_ = self.informers.types.get(pool.name) if pool and is_pool(pool) else None
        return (type_.spec.accelerator_group or "") if type_ else ""


class WorkloadFitReconciler:
    name = "workload-fit"

    def __init__(self, informers: Informers, client: Client, fit: FitPin) -> None:
        self.informers = informers
        self.client = client
        self.fit = fit

    async def reconcile(self, request: Request) -> Result:
        workload = self.informers.workloads.get(request.name, request.namespace)
        if workload is None or not can_change(workload):
            return DONE
        key = self.fit.key(workload.spec.queue_name, workload.namespace)
        if key and any(fit_expressions(pod_set, key) for pod_set in workload.spec.pod_sets or ()):
            await self._pin(workload, key)
        return DONE

    async def _pin(self, workload: Workload, key: str) -> None:
        try:
            whole = await self.client.get(WHOLE_WORKLOADS, workload.name, workload.namespace)
        except NotFound:
            return
        present = whole.spec.get("podSets") or []
        wanted = fit_pinned(present, key)
        if wanted != present:
            await write(self.client, whole, {"spec": {"podSets": wanted}}, manager="gpustack-workload-fit")


def can_change(workload: Workload) -> bool:
    """Whether its PodSets may still change."""
    return not (workload.deleting or is_true(workload, "QuotaReserved") or is_true(workload, "Finished"))


async def write(client: Client, present: KubeObject, patch: Json, *, manager: str) -> Workload:
    """A merge patch of exactly this state of a Workload."""
    metadata = {**patch.get("metadata", {}), "resourceVersion": present.metadata.resource_version}
    body = {**patch, "metadata": metadata}
    try:
        return await client.merge_patch(
            WORKLOADS, present.name, body, namespace=present.namespace, field_manager=manager
        )
    except Forbidden as refusal:  # how Kueue says that the Workload has got quota meanwhile
        raise TryAgainError(f"{present.namespace}/{present.name}: {refusal}") from refusal


def may_need_pin(change: Change[Workload]) -> bool:
    """Something new, or what can be changed again. Kueue's word on what waits comes every second."""
    old, new = change.old, change.new
    return new is not None and can_change(new) and (old is None or old.spec != new.spec or not can_change(old))
