"""No flavor leaves a queue while Kueue may still grant something on it, or has granted it without a verdict."""

from __future__ import annotations

from gpustack_op.api.kueue import (
    Admission,
    ClusterQueue,
    ClusterQueueSpec,
    ClusterQueueStatus,
    Condition,
    FlavorQuotas,
    FlavorReservation,
    PodSetAssignment,
    ReservedResource,
    ResourceGroup,
    ResourceQuota,
    Workload,
    WorkloadStatus,
)
from gpustack_op.api.meta import ObjectMeta
from gpustack_op.operator.queue_stages import holds_nothing, staged, unjudged_flavors

CREDITS = "credits.gpustack.ai/nvidia"


def quota(name: str, amount: str) -> FlavorQuotas:
    return FlavorQuotas(name=name, resources=(ResourceQuota(name=CREDITS, nominal_quota=amount),))


def queue(*flavors: FlavorQuotas, generation: int = 2, seen: int = 2) -> ClusterQueue:
    return ClusterQueue(
        metadata=ObjectMeta(name="pool", generation=generation),
        spec=ClusterQueueSpec(resource_groups=(ResourceGroup(covered_resources=(CREDITS,), flavors=flavors),)),
        status=ClusterQueueStatus(conditions=(Condition(type="Active", status="True", observed_generation=seen),)),
    )


def workload(flavor: str, **conditions: str) -> Workload:
    return Workload(
        status=WorkloadStatus(
            conditions=tuple(Condition(type=kind, status=status) for kind, status in conditions.items()),
            admission=Admission(
                cluster_queue="pool", pod_set_assignments=(PodSetAssignment(name="main", flavors={CREDITS: flavor}),)
            ),
        )
    )


def test_a_new_queue_lists_what_is_offered() -> None:
    assert staged([quota("a", "1600k")], None, unjudged=()) == (quota("a", "1600k"),)


def test_a_flavor_that_is_offered_no_more_first_stays_with_no_quota() -> None:
    assert staged([], queue(quota("a", "1600k")), unjudged=()) == (quota("a", "0"),)


def test_it_stays_until_kueue_has_seen_the_missing_quota() -> None:
    assert staged([], queue(quota("a", "0"), generation=3, seen=2), unjudged=()) == (quota("a", "0"),)


def test_it_stays_while_a_reservation_waits_for_its_verdict() -> None:
    assert staged([], queue(quota("a", "0")), unjudged={"a"}) == (quota("a", "0"),)


def test_it_leaves_once_kueue_has_seen_it_and_nothing_waits() -> None:
    assert staged([], queue(quota("a", "0")), unjudged=()) == ()


def test_others_keep_their_quota_and_order_while_one_leaves() -> None:
    present = queue(quota("a", "1600k"), quota("b", "6400k"))
    assert staged([quota("b", "6400k"), quota("c", "1600k")], present, unjudged=()) == (
        quota("b", "6400k"),
        quota("c", "1600k"),
        quota("a", "0"),
    )


def test_a_flavor_that_returns_gets_its_quota_back() -> None:
    assert staged([quota("a", "1600k")], queue(quota("a", "0")), unjudged={"a"}) == (quota("a", "1600k"),)


def test_unjudged_is_what_is_reserved_and_not_admitted() -> None:
    waiting = workload("a", QuotaReserved="True")
    admitted = workload("b", QuotaReserved="True", Admitted="True")
    evicted = workload("c", QuotaReserved="False")
    assert unjudged_flavors([waiting, admitted, evicted]) == frozenset({"a"})


def test_a_queue_with_a_reservation_holds_something() -> None:
    reserved = FlavorReservation(name="a", resources=(ReservedResource(name=CREDITS, total="160k"),))
    assert not holds_nothing(ClusterQueue(status=ClusterQueueStatus(flavors_reservation=(reserved,))))


def test_a_queue_with_an_admitted_workload_holds_something() -> None:
    assert not holds_nothing(ClusterQueue(status=ClusterQueueStatus(admitted_workloads=1)))


def test_a_queue_whose_totals_are_zero_holds_nothing() -> None:
    nothing = FlavorReservation(name="a", resources=(ReservedResource(name=CREDITS, total="0"),))
    assert holds_nothing(ClusterQueue(status=ClusterQueueStatus(flavors_reservation=(nothing,))))
