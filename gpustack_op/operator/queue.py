"""Keeps the ClusterQueue of every InstanceType: what it is made of, what it is charged in, and whether it admits.

Owns      ClusterQueues that carry our marker: existence, labels, spec, stop policy.
Never     adopts a ClusterQueue of a type's name without the marker; takes a flavor, or the per-card check, out of a
          queue while a reservation there waits for its verdict; deletes a queue on which anything is reserved.
Woken by  InstanceType (primary), ClusterQueues, ResourceFlavors, Workloads, settings.
Promises  a queue that has nothing to offer is held, since Kueue admits everything to a queue without resources; a
          deleted type's queue drains, then goes; a settled cluster sees no write.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpustack_op.api.kueue import CLUSTER_QUEUES, ClusterQueue, FlavorQuotas, ResourceFlavor, Workload
from gpustack_op.api.worker import INSTANCE_TYPES, InstanceType
from gpustack_op.operator.informers import Informers
from gpustack_op.operator.ownership import is_pool
from gpustack_op.operator.queue_stages import holds_nothing, kueue_has_seen, listed_flavors, staged, unjudged_flavors
from gpustack_op.operator.settings.live import LiveSettings
from gpustack_op.runtime.apply import Owned, Writer
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.controller import DONE, Request, Result
from gpustack_op.runtime.errors import ApiError, NotFound
from gpustack_op.runtime.events import Recorder
from gpustack_op.scheduling import labels, names
from gpustack_op.scheduling.pools import FLAVOR_LIMIT, PoolPlan, feeds, pool_plan, resource_groups, type_labels

OWNED = Owned(
    exact=(
        f"metadata.labels[{labels.GENERAL_PREFIX}*]",
        f"metadata.labels[{labels.ACCELERATOR_PREFIX}*]",
    ),
    quantities=("spec.resourceGroups.*.flavors.*.resources.*.nominalQuota",),
)

NONE, HOLD, DRAIN = "None", "Hold", "HoldAndDrain"
NEVER = {"reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "Never"}, "withinClusterQueue": "Never"}
"""Nobody preempts: a higher priority would cost a running workload its card and its local data."""


def stop_policy(*, backed: bool, inactive: bool, drain_when_empty: bool) -> str:
    """What a live type's queue does: a person's wish first, then whether there is anything to admit to."""
    if not backed and drain_when_empty:
        return DRAIN
    return HOLD if inactive or not backed else NONE


def wanted_queue(type_: InstanceType, *, resource: str, flavors: tuple[FlavorQuotas, ...], stop: str) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "namespaceSelector": {},
        "stopPolicy": stop,
        "flavorFungibility": {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "MayStopSearch"},
        "preemption": NEVER,
        "resourceGroups": resource_groups(resource, flavors),
    }
    if type_.spec.acceleratable:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": names.NODE_DEVICES_CHECK}]}
    marks = {**type_labels(type_.spec), labels.RESOURCE_TYPE: labels.TYPE_POOL}
    return {"metadata": {"name": type_.name, "labels": marks}, "spec": spec}


@dataclass(frozen=True, slots=True)
class NextPlan:
    """What the queue should list now: the pool's plan, and `flavors` with those that may not leave yet."""

    pool: PoolPlan
    resource: str
    flavors: tuple[FlavorQuotas, ...]


def next_plan(
    type_: InstanceType, queue: ClusterQueue | None, flavors: list[ResourceFlavor], *, unjudged: frozenset[str]
) -> NextPlan:
    """Those that have yet to leave keep their places, so that new flavors get what is left of Kueue's 64."""
    marks = type_labels(type_.spec)
    listed = {flavor.name for flavor in listed_flavors(queue)} if queue else set()
    plan = pool_plan(marks, flavors, listed=listed)
    stages = staged(plan.flavors, queue, unjudged=unjudged)
    if len(stages) > FLAVOR_LIMIT:
        leaving = len(stages) - len(plan.flavors)
        plan = pool_plan(marks, flavors, listed=listed, limit=FLAVOR_LIMIT - leaving)
        stages = staged(plan.flavors, queue, unjudged=unjudged)
    return NextPlan(plan, plan.resource or covered_resource(queue), stages)


def covered_resource(queue: ClusterQueue | None) -> str:
    """What the queue counts at present; empty when it counts nothing."""
    groups = (queue.spec.resource_groups or ()) if queue else ()
    return next((resource for group in groups for resource in group.covered_resources), "")


class QueueReconciler:
    name = "queue"

    def __init__(
        self, informers: Informers, client: Client, writer: Writer, recorder: Recorder, settings: LiveSettings
    ) -> None:
        self.informers = informers
        self.client = client
        self.writer = writer
        self.recorder = recorder
        self.settings = settings
        informers.workloads.add_index("queue", queue_of_workload)

    async def reconcile(self, request: Request) -> Result:
        type_ = self.informers.types.get(request.name)
        queue = self.informers.queues.get(request.name)
        if queue is not None and not is_pool(queue):
            return DONE  # somebody else's; the type's status says so
        if queue is not None and queue.deleting:
            await self._stop(queue)  # a queue that ends must not keep what it admitted
        elif type_ is None:
            await self._remove_orphan(request.name, queue)
        elif type_.deleting:
            await self._drain_for(type_, queue)
        elif labels.CONTROLLED_FINALIZER in (type_.metadata.finalizers or ()):
            await self._keep(type_, queue)
        return DONE

    async def _keep(self, type_: InstanceType, queue: ClusterQueue | None) -> None:
        unjudged = unjudged_flavors(self.informers.workloads.by_index("queue", type_.name))
        plan = next_plan(type_, queue, self.informers.flavors.all(), unjudged=unjudged)
        stop = stop_policy(
            backed=bool(plan.pool.flavors),
            inactive=bool(type_.spec.inactive),
            drain_when_empty=self.settings.current.instance_type_drain_when_no_flavors,
        )
        wanted = wanted_queue(type_, resource=plan.resource, flavors=plan.flavors, stop=stop)
        written = await self.writer.converge(CLUSTER_QUEUES, wanted, queue, owned=OWNED)
        if written is not None and plan.pool.left_out:
            self._report_left_out(type_, plan.pool)

    async def _drain_for(self, type_: InstanceType, queue: ClusterQueue | None) -> None:
        """Whoever deletes a type and waits should read why it takes long, for instance that Kueue's webhook is down."""
        try:
            await self._drain(queue)
        except ApiError as refusal:
            note = f'InstanceType "{type_.name}": its ClusterQueue cannot be drained yet, and is tried again: {refusal}'
            self.recorder.event(type_, "Warning", "DrainRefused", note, action="DrainQueue")
            raise

    async def _drain(self, queue: ClusterQueue | None) -> None:
        if queue is None:
            return
        if queue.spec.stop_policy != DRAIN:
            await self._stop(queue)
        elif kueue_has_seen(queue) and holds_nothing(queue):
            await self.writer.delete(CLUSTER_QUEUES, queue)

    async def _stop(self, queue: ClusterQueue) -> None:
        if queue.spec.stop_policy != DRAIN:
            patch = {
                "metadata": {"resourceVersion": queue.metadata.resource_version},
                "spec": {"stopPolicy": DRAIN},
            }
            await self.client.merge_patch(CLUSTER_QUEUES, queue.name, patch, field_manager=self.writer.field_manager)

    async def _remove_orphan(self, name: str, queue: ClusterQueue | None) -> None:
        """A queue whose type is gone for certain, its finalizer having been lifted by hand."""
        if queue is None:
            return
        try:
            await self.client.get(INSTANCE_TYPES, name)
        except NotFound as absence:
            if absence.names_object:
                await self._drain(queue)

    def _report_left_out(self, type_: InstanceType, plan: PoolPlan) -> None:
        self.recorder.event(
            type_,
            "Warning",
            "TooManyFlavors",
            f'InstanceType "{type_.name}": its pool has more flavors than the {FLAVOR_LIMIT} a ClusterQueue holds; '
            f"left out: {'; '.join(map(self._with_nodes, plan.left_out))}. Split the pool by another InstanceType",
            action="PlanQueue",
        )

    def _with_nodes(self, name: str) -> str:
        flavor = self.informers.flavors.get(name)
        selector = flavor.spec.node_labels if flavor else None
        nodes = sorted(node.name for node in self.informers.nodes.all() if labels.selects(selector, node.labels))
        return f"{', '.join(nodes) or 'no node'} (flavor {name})"

    # --- What wakes it ------------------------------------------------------------------------------------------

    def queues_of_flavor(self, flavor: ResourceFlavor) -> list[Request]:
        """The queues it feeds, and those that list it."""
        fed = {t.name for t in self.informers.types.all() if feeds(flavor, type_labels(t.spec))}
        listed = {
            queue.name
            for queue in self.informers.queues.all()
            if any(listed.name == flavor.name for listed in listed_flavors(queue))
        }
        return [Request(name) for name in fed | listed]


def queue_of_workload(workload: Workload) -> list[str]:
    """The ClusterQueue in which the Workload has quota reserved, if any."""
    admission = workload.status.admission
    return [admission.cluster_queue] if admission else []


def requests_of_workload(workload: Workload) -> list[Request]:
    return [Request(name) for name in queue_of_workload(workload)]
