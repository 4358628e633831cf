"""How a flavor leaves a ClusterQueue without disturbing what runs on it, and without letting anything in unjudged.

A flavor that is no longer offered first keeps its place with quota 0, so that Kueue grants nothing new on it. It
leaves the queue when Kueue has seen that quota and no reservation on the flavor still waits for its verdict: taken out
earlier, the reservation would be admitted without one. What was admitted before runs on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from gpustack_op.api.kueue import ClusterQueue, FlavorQuotas, ResourceQuota, Workload
from gpustack_op.api.quantity import Quantity

NO_QUOTA = Quantity.parse("0")


def staged(
    live: Sequence[FlavorQuotas], queue: ClusterQueue | None, *, unjudged: Collection[str]
) -> tuple[FlavorQuotas, ...]:
    """The flavors the queue should list next: the live ones, and behind them those that may not leave yet, at quota 0.

    `unjudged` names the flavors on which a reservation waits for its admission checks.
    """
    if queue is None:
        return tuple(live)
    offered = {flavor.name for flavor in live}
    leaving = (flavor for flavor in listed_flavors(queue) if flavor.name not in offered)
    seen = kueue_has_seen(queue)
    staying = [without_quota(f) for f in leaving if not (seen and has_no_quota(f) and f.name not in unjudged)]
    return (*live, *staying)


def listed_flavors(queue: ClusterQueue) -> tuple[FlavorQuotas, ...]:
    return tuple(flavor for group in queue.spec.resource_groups or () for flavor in group.flavors)


def kueue_has_seen(queue: ClusterQueue) -> bool:
    """Whether Kueue's verdict on the queue is about the generation that is stored."""
    return any(
        c.type == "Active" and c.observed_generation >= queue.metadata.generation for c in queue.status.conditions or ()
    )


def has_no_quota(flavor: FlavorQuotas) -> bool:
    return all(Quantity.parse(resource.nominal_quota) == NO_QUOTA for resource in flavor.resources)


def without_quota(flavor: FlavorQuotas) -> FlavorQuotas:
    return FlavorQuotas(name=flavor.name, resources=tuple(ResourceQuota(name=r.name) for r in flavor.resources))


def unjudged_flavors(workloads: Iterable[Workload]) -> frozenset[str]:
    """Flavors on which one of these Workloads has quota reserved and is not admitted yet."""
    return frozenset(flavor for workload in workloads if is_unjudged(workload) for flavor in assigned_flavors(workload))


def is_unjudged(workload: Workload) -> bool:
    conditions = {c.type: c.status for c in workload.status.conditions or ()}
    return conditions.get("QuotaReserved") == "True" and conditions.get("Admitted") != "True"


def is_finished(workload: Workload) -> bool:
    return any(c.type == "Finished" and c.status == "True" for c in workload.status.conditions or ())


def assigned_flavors(workload: Workload) -> frozenset[str]:
    admission = workload.status.admission
    assignments = admission.pod_set_assignments if admission else None
    return frozenset(flavor for a in assignments or () for flavor in (a.flavors or {}).values())


def holds_nothing(queue: ClusterQueue) -> bool:
    """Whether Kueue reports nothing reserved or admitted in the queue. Pending Workloads do not count."""
    status = queue.status
    if status.reserving_workloads or status.admitted_workloads:
        return False
    totals = (r.total for f in status.flavors_reservation or () for r in f.resources or ())
    return all(Quantity.parse(total) == NO_QUOTA for total in totals)
