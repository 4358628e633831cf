"""A type's ClusterQueue lists what the pool offers, holds when that is nothing, drains when the type ends."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gpustack_op.api.kueue import CLUSTER_QUEUES, RESOURCE_FLAVORS, ClusterQueue, ResourceFlavor
from gpustack_op.api.worker import INSTANCE_TYPES, InstanceType
from gpustack_op.operator.queue import QueueReconciler, requests_of_workload, stop_policy
from gpustack_op.runtime.controller import Request
from gpustack_op.runtime.errors import NotFound
from tests.builders import (
    flavor,
    instance_type,
    metadata,
    stored_flavor,
    type_spec,
    walkthrough_flavors,
    workload,
)
from tests.memory_cluster import MemoryCluster

CREDITS = "credits.gpustack.ai/nvidia"
FINALIZER = "gpustack.ai/controlled"
ONE, FOUR = (
    "gpustack--intel-xeon-platinum-8259cl--nvidia-tesla-t4-linux-amd64-1d",
    "gpustack--intel-xeon-platinum-8259cl--nvidia-tesla-t4-linux-amd64-4d",
)


@pytest.mark.parametrize(
    ("backed", "inactive", "drain", "expected"),
    [
        pytest.param(True, False, False, "None", id="a pool with nodes admits"),
        pytest.param(True, True, False, "Hold", id="a person's wish holds it"),
        pytest.param(True, True, True, "Hold", id="a person's wish never drains"),
        pytest.param(False, False, False, "Hold", id="a pool without nodes admits nothing and stops nobody"),
        pytest.param(False, True, False, "Hold", id="neither nodes nor the wish for any"),
        pytest.param(False, False, True, "HoldAndDrain", id="it drains only where its setting says so"),
        pytest.param(False, True, True, "HoldAndDrain", id="it drains whatever else is wished"),
    ],
)
def test_stop_policy(backed: bool, inactive: bool, drain: bool, expected: str) -> None:
    assert stop_policy(backed=backed, inactive=inactive, drain_when_empty=drain) == expected


def kept(name: str = "t4", **spec: Any) -> InstanceType:
    """A type whose finalizer is on, as the queue waits for."""
    fields = spec or {"accelerator_group": "nvidia-tesla-t4"}
    return InstanceType(metadata=metadata(name, finalizers=(FINALIZER,)), spec=type_spec(**fields))


def sized(count: int) -> ResourceFlavor:
    """A flavor of nodes with so many T4."""
    return flavor("t4-b", cards=True, count=count)


class Stand(MemoryCluster):
    """The type `t4`."""

    def __init__(self, *flavors: ResourceFlavor, type_: InstanceType | None = None) -> None:
        super().__init__()
        self.reconciler = QueueReconciler(self.informers, self.client, self.writer(), self.recorder, self.settings)
        self.type = type_ or kept()
        self.add(self.type, *flavors)

    async def pass_(self) -> list[str]:
        self.writes_since()
        await self.reconciler.reconcile(Request(self.type.name))
        return self.writes_since()

    async def settled(self) -> Stand:
        await self.pass_()
        self.kueue_has_seen(self.type.name)
        await self.pass_()
        return self

    @property
    def pool(self) -> ClusterQueue:
        return self.queue(self.type.name)

    @property
    def listed(self) -> dict[str, str]:
        """Quota by flavor, in the order of the queue."""
        groups = self.pool.spec.resource_groups or ()
        return {f.name: f.resources[0].nominal_quota for group in groups for f in group.flavors}

    def end_type(self) -> None:
        self.remove(INSTANCE_TYPES, self.type.name)

    def withdraw(self, name: str) -> None:
        """What the flavor's reconciler does when its last node has gone."""
        labels = {key: "0" for key in self.flavor(name).labels if key.endswith(".capacity")}
        self.patch(RESOURCE_FLAVORS, name, {"metadata": {"labels": labels}})


async def test_a_queue_lists_what_its_pool_offers_small_nodes_first() -> None:
    stand = Stand(*walkthrough_flavors())

    assert await stand.pass_() == ["create t4"]

    assert stand.listed == {ONE: "1600k", FOUR: "6400k"}
    assert stand.pool.spec.stop_policy == "None"
    assert [group.covered_resources for group in stand.pool.spec.resource_groups or ()] == [(CREDITS,)]
    assert stand.pool.labels["resource.gpustack.ai/type"] == "instancetypes"
    assert await stand.pass_() == []


async def test_the_pool_of_all_cpus_lists_four_flavors_in_one_group() -> None:
    stand = Stand(*walkthrough_flavors(), type_=kept("generic", general_group="generic"))
    await stand.pass_()
    assert stand.listed == {
        "gpustack--amd-epyc-7r32-linux-amd64-4c": "4",
        "gpustack--intel-xeon-platinum-8259cl-linux-amd64-4c": "4",
        "gpustack--amd-epyc-7r13-linux-amd64-16c": "16",
        "gpustack--intel-xeon-platinum-8259cl-linux-amd64-48c": "48",
    }
    assert list(stand.listed) == [
        "gpustack--amd-epyc-7r32-linux-amd64-4c",
        "gpustack--intel-xeon-platinum-8259cl-linux-amd64-4c",
        "gpustack--amd-epyc-7r13-linux-amd64-16c",
        "gpustack--intel-xeon-platinum-8259cl-linux-amd64-48c",
    ]


async def test_nobody_preempts() -> None:
    stand = await Stand(sized(1)).settled()
    assert msgspec.to_builtins(stand.pool.spec.preemption) == {
        "reclaimWithinCohort": "Never",
        "borrowWithinCohort": {"policy": "Never"},
        "withinClusterQueue": "Never",
    }


@pytest.mark.parametrize("derived", ["true", "false"])
async def test_an_accelerated_queue_always_lists_the_per_card_check(derived: str) -> None:
    stand = Stand(sized(1))
    stand.set(instance_type_derived_from_node=derived)
    await stand.pass_()
    strategy = stand.pool.spec.admission_checks_strategy
    assert [check.name for check in (strategy and strategy.admission_checks) or ()] == ["gpustack-node-devices"]


async def test_a_check_that_somebody_took_out_is_put_back() -> None:
    stand = await Stand(sized(1)).settled()
    stand.patch(CLUSTER_QUEUES, "t4", {"spec": {"admissionChecksStrategy": None}})
    assert await stand.pass_() == ["apply t4"]
    assert stand.pool.spec.admission_checks_strategy is not None


async def test_a_cpu_queue_has_no_check() -> None:
    stand = Stand(*walkthrough_flavors(), type_=kept("generic", general_group="generic"))
    await stand.pass_()
    assert stand.pool.spec.admission_checks_strategy is None


async def test_nothing_happens_before_the_types_finalizer_is_on() -> None:
    stand = Stand(sized(1), type_=instance_type("t4", accelerator_group="nvidia-tesla-t4"))
    assert await stand.pass_() == []


# --- Nothing to offer ---------------------------------------------------------------------------------------------


async def test_a_queue_without_flavors_is_held_and_opens_with_the_first() -> None:
    stand = Stand()
    await stand.pass_()
    assert stand.listed == {}
    assert stand.pool.spec.stop_policy == "Hold"
    stand.add(sized(1))
    await stand.pass_()
    assert stand.listed == {ONE: "1600k"}
    assert stand.pool.spec.stop_policy == "None"


async def test_an_inactive_type_stays_held_when_its_first_flavor_comes() -> None:
    stand = Stand(type_=kept(accelerator_group="nvidia-tesla-t4", inactive=True))
    await stand.pass_()
    stand.add(sized(1))
    await stand.pass_()
    assert stand.listed == {ONE: "1600k"}
    assert stand.pool.spec.stop_policy == "Hold"


async def test_inactive_holds_and_active_admits() -> None:
    stand = await Stand(sized(1)).settled()
    stand.patch(INSTANCE_TYPES, "t4", {"spec": {"inactive": True}})
    await stand.pass_()
    assert stand.pool.spec.stop_policy == "Hold"
    stand.patch(INSTANCE_TYPES, "t4", {"spec": {"inactive": None}})
    await stand.pass_()
    assert stand.pool.spec.stop_policy == "None"


async def test_a_stop_policy_edited_by_hand_is_put_back() -> None:
    stand = await Stand(sized(1)).settled()
    stand.patch(CLUSTER_QUEUES, "t4", {"spec": {"stopPolicy": "HoldAndDrain"}})
    await stand.pass_()
    assert stand.pool.spec.stop_policy == "None"


async def test_a_lost_last_flavor_holds_and_what_runs_runs_on() -> None:
    stand = await Stand(sized(1)).settled()
    stand.kueue_has_seen("t4", admittedWorkloads=1, reservingWorkloads=1)
    stand.withdraw(ONE)
    await stand.pass_()
    assert stand.listed == {ONE: "0"}
    assert stand.pool.spec.stop_policy == "Hold"


async def test_a_lost_last_flavor_drains_where_the_setting_says_so() -> None:
    stand = await Stand(sized(1)).settled()
    stand.set(instance_type_drain_when_no_flavors="true")
    stand.withdraw(ONE)
    await stand.pass_()
    assert stand.pool.spec.stop_policy == "HoldAndDrain"
    stand.set(instance_type_drain_when_no_flavors="false")
    await stand.pass_()
    assert stand.pool.spec.stop_policy == "Hold"


async def test_a_flavor_that_returns_opens_a_drained_queue() -> None:
    stand = await Stand(sized(1)).settled()
    stand.set(instance_type_drain_when_no_flavors="true")
    stand.withdraw(ONE)
    await stand.pass_()
    stand.kueue_has_seen("t4")
    await stand.pass_()
    assert stand.listed == {}
    stand.add(sized(1))
    await stand.pass_()
    assert stand.listed == {ONE: "1600k"}
    assert stand.pool.spec.stop_policy == "None"


# --- A flavor leaves ----------------------------------------------------------------------------------------------


async def test_one_flavor_leaves_in_stages_and_the_queue_admits_all_the_while() -> None:
    stand = await Stand(*walkthrough_flavors()).settled()

    stand.withdraw(ONE)
    await stand.pass_()
    assert stand.listed == {FOUR: "6400k", ONE: "0"}
    assert await stand.pass_() == []
    stand.kueue_has_seen("t4")
    await stand.pass_()

    assert stand.listed == {FOUR: "6400k"}
    assert stand.pool.spec.stop_policy == "None"


async def test_a_flavor_stays_while_a_reservation_on_it_waits_for_its_verdict() -> None:
    stand = await Stand(*walkthrough_flavors()).settled()
    stand.add(workload(ONE, name="w", queue="t4", QuotaReserved="True"))
    stand.withdraw(ONE)
    await stand.pass_()
    stand.kueue_has_seen("t4")
    assert await stand.pass_() == []
    stand.add(workload(ONE, name="w", queue="t4", QuotaReserved="True", Admitted="True"))
    await stand.pass_()
    assert stand.listed == {FOUR: "6400k"}


async def test_a_terminating_flavor_is_not_in_the_plan() -> None:
    going = stored_flavor(
        {"metadata": {"name": "old", "labels": dict(sized(1).labels), "annotations": dict(sized(1).annotations)}},
        deleting=True,
    )
    stand = Stand(sized(4), going)
    await stand.pass_()
    assert stand.listed == {FOUR: "6400k"}


async def test_flavors_of_an_earlier_naming_leave_the_queue_behind_the_new_ones() -> None:
    earlier = flavor("t4-a", cards=True, name="gpustack-old-t4")
    stand = await Stand(earlier).settled()
    stand.add(sized(1))
    stand.withdraw("gpustack-old-t4")
    await stand.pass_()
    assert stand.listed == {ONE: "1600k", "gpustack-old-t4": "0"}
    stand.kueue_has_seen("t4")
    await stand.pass_()
    assert stand.listed == {ONE: "1600k"}


# --- Kueue's limit ------------------------------------------------------------------------------------------------


async def test_a_queue_holds_sixty_four_flavors() -> None:
    stand = Stand(*(sized(count) for count in range(1, 65)))
    await stand.pass_()
    assert len(stand.listed) == 64
    assert stand.told.events == []


async def test_the_sixty_fifth_is_left_out_and_told_once() -> None:
    stand = Stand(*(sized(count) for count in range(1, 66)))
    await stand.pass_()
    await stand.pass_()
    assert len(stand.listed) == 64
    assert stand.told.events == [
        (
            "TooManyFlavors",
            'InstanceType "t4": its pool has more flavors than the 64 a ClusterQueue holds; left out: '
            "no node (flavor gpustack--intel-xeon-platinum-8259cl--nvidia-tesla-t4-linux-amd64-65d). "
            "Split the pool by another InstanceType",
        )
    ]


async def test_a_small_newcomer_displaces_nobody() -> None:
    stand = await Stand(*(sized(count) for count in range(2, 66))).settled()
    stand.add(sized(1))
    assert await stand.pass_() == []
    assert ONE not in stand.listed


async def test_one_that_leaves_keeps_its_place_until_it_has_left_and_then_the_next_moves_up() -> None:
    stand = await Stand(*(sized(count) for count in range(1, 66))).settled()
    stand.withdraw(ONE)
    await stand.pass_()
    assert len(stand.listed) == 64
    assert stand.listed[ONE] == "0"
    stand.kueue_has_seen("t4")
    await stand.pass_()
    await stand.pass_()
    assert len(stand.listed) == 64
    assert "gpustack--intel-xeon-platinum-8259cl--nvidia-tesla-t4-linux-amd64-65d" in stand.listed


# --- The queue or its type ends -----------------------------------------------------------------------------------


async def test_a_deleted_types_queue_drains_and_goes_when_nothing_is_reserved() -> None:
    stand = await Stand(sized(1)).settled()
    stand.kueue_has_seen("t4", reservingWorkloads=1)
    stand.end_type()
    assert await stand.pass_() == ["merge_patch t4"]
    assert stand.pool.spec.stop_policy == "HoldAndDrain"
    assert await stand.pass_() == []
    stand.kueue_has_seen("t4", reservingWorkloads=1)
    assert await stand.pass_() == []
    stand.kueue_has_seen("t4", reservingWorkloads=0)
    assert await stand.pass_() == ["delete t4"]


async def test_a_queue_deleted_by_hand_drains_and_comes_back() -> None:
    stand = await Stand(sized(1)).settled()
    stand.patch(CLUSTER_QUEUES, "t4", {"metadata": {"finalizers": ["kueue.x-k8s.io/resource-in-use"]}})
    stand.remove(CLUSTER_QUEUES, "t4")
    assert await stand.pass_() == ["merge_patch t4"]
    assert stand.pool.spec.stop_policy == "HoldAndDrain"
    assert await stand.pass_() == []
    stand.patch(CLUSTER_QUEUES, "t4", {"metadata": {"finalizers": None}})
    assert await stand.pass_() == ["create t4"]


async def test_a_queue_whose_type_is_known_gone_drains_and_goes() -> None:
    stand = await Stand(sized(1)).settled()
    stand.patch(INSTANCE_TYPES, "t4", {"metadata": {"finalizers": None}})
    stand.end_type()
    await stand.pass_()
    stand.kueue_has_seen("t4")
    assert await stand.pass_() == ["delete t4"]


async def test_a_queue_whose_type_a_lagging_cache_has_lost_goes_on() -> None:
    stand = await Stand(sized(1)).settled()
    stand.informers.types.remove(stand.read(INSTANCE_TYPES, "t4"))
    assert await stand.pass_() == []


async def test_a_missing_kind_is_no_missing_type() -> None:
    stand = await Stand(sized(1)).settled()
    stand.patch(INSTANCE_TYPES, "t4", {"metadata": {"finalizers": None}})
    stand.end_type()
    stand.trouble("get", NotFound(404, "NotFound", "the server could not find the requested resource"))
    assert await stand.pass_() == []


async def test_a_foreign_queue_of_the_types_name_is_left_alone_dead_or_alive() -> None:
    stand = Stand(sized(1))
    stand.put(CLUSTER_QUEUES, {"metadata": {"name": "t4"}, "spec": {"stopPolicy": "None"}})
    assert await stand.pass_() == []
    stand.end_type()
    assert await stand.pass_() == []


async def test_two_passes_before_the_cache_shows_anything_make_one_queue() -> None:
    stand = Stand(sized(1))
    stand.lag(CLUSTER_QUEUES)
    await stand.pass_()
    await stand.pass_()
    assert stand.names(CLUSTER_QUEUES) == ["t4"]
    assert stand.listed == {ONE: "1600k"}


async def test_quotas_written_otherwise_are_equal() -> None:
    stand = await Stand(sized(1)).settled()
    group = msgspec.to_builtins((stand.pool.spec.resource_groups or ())[0])
    group["flavors"][0]["resources"][0]["nominalQuota"] = "1600000"
    stand.patch(CLUSTER_QUEUES, "t4", {"spec": {"resourceGroups": [group]}})
    assert await stand.pass_() == []


# --- What wakes it ------------------------------------------------------------------------------------------------


async def test_a_flavor_wakes_the_queues_it_feeds_and_those_that_list_it() -> None:
    stand = await Stand(sized(1)).settled()
    stand.add(kept("other", accelerator_group="nvidia-a10g"))
    assert stand.reconciler.queues_of_flavor(stand.flavor(ONE)) == [Request("t4")]
    stranger = stored_flavor({"metadata": {"name": ONE, "labels": {}}})
    assert stand.reconciler.queues_of_flavor(stranger) == [Request("t4")]


def test_a_workload_wakes_the_queue_it_has_quota_in() -> None:
    assert requests_of_workload(workload("f", queue="t4")) == [Request("t4")]
