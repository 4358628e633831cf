"""What passes in a moment is not shown: that a new type was being made, or what Kueue says while it starts."""

from __future__ import annotations

import pytest

from gpustack_op.api.kueue import CLUSTER_QUEUES
from gpustack_op.api.worker import INSTANCE_TYPES
from gpustack_op.operator.instance_type_status import HEARSAY_PATIENCE, PATIENCE, InstanceTypeStatusReconciler
from gpustack_op.runtime.controller import DONE, Request, Result, TryAgainError
from tests.builders import cluster_queue, flavor, instance_type
from tests.memory_cluster import MemoryCluster

POOL = Request("a-type")


class Stand(MemoryCluster):
    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.reconciler = InstanceTypeStatusReconciler(
            self.informers, self.writer(), self.settings, clock=lambda: self.now
        )

    def phase(self) -> object:
        [present] = self.informers.types.all()
        return (present.status or {}).get("phase")

    def kueue_complains(self) -> None:
        complaint = {"type": "Active", "status": "False", "reason": "FlavorNotFound", "message": "a flavor is missing"}
        self.patch(CLUSTER_QUEUES, "a-type", {"status": {"conditions": [complaint]}})


@pytest.fixture
def stand() -> Stand:
    stand = Stand()
    stand.add(instance_type("a-type"))
    return stand


async def test_a_new_type_waits_a_moment_for_its_queue(stand: Stand) -> None:
    assert await stand.reconciler.reconcile(POOL) == Result(requeue_after=PATIENCE)
    assert stand.phase() is None


async def test_a_queue_that_takes_longer_is_told(stand: Stand) -> None:
    await stand.reconciler.reconcile(POOL)
    stand.now += PATIENCE
    assert await stand.reconciler.reconcile(POOL) == DONE
    assert stand.phase() == "Activating"


async def test_a_type_that_is_served_in_time_is_active_at_once(stand: Stand) -> None:
    await stand.reconciler.reconcile(POOL)
    stand.add(cluster_queue("a-type"))
    stand.kueue_has_seen("a-type")
    assert await stand.reconciler.reconcile(POOL) == DONE
    assert stand.phase() == "Active"


async def test_a_type_that_showed_something_before_shows_the_next_at_once(stand: Stand) -> None:
    stand.patch(INSTANCE_TYPES, "a-type", {"status": {"phase": "Active"}})
    assert await stand.reconciler.reconcile(POOL) == DONE
    assert stand.phase() == "Activating"


@pytest.fixture
async def doubted(stand: Stand) -> Stand:
    """The type is active, and Kueue begins to complain of its queue."""
    stand.add(flavor("cpu"))
    stand.add(cluster_queue("a-type"))
    stand.kueue_has_seen("a-type")
    await stand.reconciler.reconcile(POOL)
    stand.kueue_complains()
    return stand


async def test_a_complaint_of_kueues_is_told_once_it_has_stood_for_a_while(doubted: Stand) -> None:
    assert await doubted.reconciler.reconcile(POOL) == Result(requeue_after=HEARSAY_PATIENCE)
    assert doubted.phase() == "Active"
    doubted.now += HEARSAY_PATIENCE
    assert await doubted.reconciler.reconcile(POOL) == DONE
    assert doubted.phase() == "Activating"


async def test_a_complaint_that_kueue_takes_back_is_never_told_and_the_next_has_a_time_of_its_own(
    doubted: Stand,
) -> None:
    await doubted.reconciler.reconcile(POOL)
    doubted.now += HEARSAY_PATIENCE - 1
    doubted.kueue_has_seen("a-type")
    assert await doubted.reconciler.reconcile(POOL) == DONE
    doubted.kueue_complains()
    assert await doubted.reconciler.reconcile(POOL) == Result(requeue_after=HEARSAY_PATIENCE)
    assert doubted.phase() == "Active"


async def test_nothing_is_judged_by_a_queue_cache_that_is_still_being_read(stand: Stand) -> None:
    stand.informers.queues._synced.clear()
    with pytest.raises(TryAgainError, match=r"clusterqueues.*is still being read"):
        await stand.reconciler.reconcile(POOL)
    assert stand.phase() is None
