"""Every pool that hardware derives has its type; a deleted type goes when its queue is known gone."""

from __future__ import annotations

import asyncio

import pytest

from gpustack_op.api.kueue import CLUSTER_QUEUES, RESOURCE_FLAVORS
from gpustack_op.api.worker import INSTANCE_TYPES, InstanceType
from gpustack_op.operator.instance_type import InstanceTypeReconciler
from gpustack_op.runtime.controller import Request
from gpustack_op.runtime.errors import Conflict, Invalid, NotFound
from tests.builders import cluster_queue, flavor, instance_type, walkthrough_devices, walkthrough_flavors
from tests.memory_cluster import MemoryCluster
from tests.runtime.memory_api import ANSWER_LOST

FINALIZER = "gpustack.ai/controlled"
T4 = "gpustack--nvidia-tesla-t4-linux-amd64"
GENERIC = {"gpustack--generic-linux-amd64", "gpustack--nvidia-a10g-linux-amd64", T4}
AWARE = {
    "gpustack--amd-epyc-7r13-linux-amd64",
    "gpustack--amd-epyc-7r32-linux-amd64",
    "gpustack--amd-epyc-7r32--nvidia-a10g-linux-amd64",
    "gpustack--intel-xeon-platinum-8259cl-linux-amd64",
    "gpustack--intel-xeon-platinum-8259cl--nvidia-tesla-t4-linux-amd64",
}


class Stand(MemoryCluster):
    def __init__(self, *, hardware: bool = True) -> None:
        super().__init__()
        self.reconciler = InstanceTypeReconciler(self.informers, self.client, self.writer(), self.settings)
        if hardware:
            self.add(*walkthrough_flavors(), *walkthrough_devices())

    async def pass_(self, *names: str) -> list[str]:
        """The writes of one reconcile of each of these, or of everything that a setting may concern."""
        self.writes_since()
        for request in [Request(name) for name in names] or self.reconciler.everything():
            await self.reconciler.reconcile(request)
        return self.writes_since()

    @property
    def types(self) -> set[str]:
        return set(self.names(INSTANCE_TYPES))

    def type(self, name: str = T4) -> InstanceType:
        return self.read(INSTANCE_TYPES, name)

    async def with_type(self) -> Stand:
        """One type that is kept, and its queue."""
        self.add(instance_type("mine", accelerator_group="nvidia-tesla-t4"))
        await self.pass_("mine")
        self.add(cluster_queue("mine"))
        return self

    def finalizers(self) -> tuple[str, ...] | None:
        return self.type("mine").metadata.finalizers

    def end(self) -> None:
        self.remove(INSTANCE_TYPES, "mine")


async def test_the_four_machines_derive_three_types_and_then_there_is_peace() -> None:
    stand = Stand()
    await stand.pass_()
    await stand.pass_()
    assert stand.types == GENERIC
    assert await stand.pass_() == []


async def test_awareness_adds_five_and_takes_none_away() -> None:
    stand = Stand()
    await stand.pass_()
    stand.set(instance_type_aware_cpu_manufacturer="true")
    await stand.pass_()
    assert stand.types == GENERIC | AWARE
    stand.set(instance_type_aware_cpu_manufacturer="false")
    await stand.pass_()
    assert stand.types == GENERIC | AWARE


async def test_nothing_is_derived_where_the_setting_says_so_and_what_is_there_stays() -> None:
    stand = Stand()
    await stand.pass_()
    stand.set(instance_type_derived_from_node="false", instance_type_aware_cpu_manufacturer="true")
    await stand.pass_()
    assert stand.types == GENERIC


async def test_hardware_that_has_gone_derives_nothing() -> None:
    stand = Stand(hardware=False)
    stand.add(flavor("cpu", deleting=True))
    withdrawn = flavor("a10g", cards=True)
    stand.add(withdrawn)
    key = "acceleratable.feature.gpustack.ai/nvidia-a10g.capacity"
    stand.patch(RESOURCE_FLAVORS, withdrawn.name, {"metadata": {"labels": {key: "0"}}})
    await stand.pass_()
    assert stand.types == set()


async def test_a_deleted_derived_type_is_derived_again() -> None:
    stand = Stand()
    await stand.pass_()
    stand.patch(INSTANCE_TYPES, T4, {"metadata": {"finalizers": None}})
    stand.remove(INSTANCE_TYPES, T4)
    assert await stand.pass_(T4) == [f"create {T4}"]


async def test_a_type_somebody_made_is_never_changed_but_for_finalizer_and_descriptors() -> None:
    stand = Stand()
    theirs = instance_type(T4, accelerator_group="nvidia-tesla-t4", unit="1/1Gi/1Gi", display_name="mine")
    stand.add(theirs)
    await stand.pass_()
    stored = stand.type().spec
    assert stored.unit_resources == theirs.spec.unit_resources
    assert stored.display_name == "mine"
    assert stored.product == "Tesla-T4"


async def test_descriptors_come_when_the_hardware_does_and_stay() -> None:
    stand = Stand(hardware=False)
    stand.add(instance_type("mine", accelerator_group="nvidia-a10g"))
    await stand.pass_("mine")
    assert stand.type("mine").spec.product is None
    stand.add(*walkthrough_flavors(), *walkthrough_devices())
    assert await stand.pass_("mine") == ["merge_patch mine"]
    assert (stand.type("mine").spec.product, stand.type("mine").spec.memory) == ("NVIDIA-A10G", "24Gi")
    assert await stand.pass_("mine") == []


async def test_two_passes_before_the_cache_shows_anything_make_one_type() -> None:
    stand = Stand()
    stand.lag(INSTANCE_TYPES)
    await asyncio.gather(stand.reconciler.reconcile(Request(T4)), stand.reconciler.reconcile(Request(T4)))
    assert [name for name in stand.names(INSTANCE_TYPES) if name == T4] == [T4]


async def test_a_create_whose_answer_was_lost_makes_one_type() -> None:
    stand = Stand()
    stand.lag(INSTANCE_TYPES)
    stand.trouble("create", ANSWER_LOST)
    with pytest.raises(ConnectionResetError):
        await stand.reconciler.reconcile(Request(T4))
    await stand.reconciler.reconcile(Request(T4))
    assert stand.names(INSTANCE_TYPES) == [T4]


# --- The end of a type --------------------------------------------------------------------------------------------


async def test_a_type_is_held_while_its_queue_is_there() -> None:
    stand = await Stand().with_type()
    stand.end()
    assert await stand.pass_("mine") == []
    stand.remove(CLUSTER_QUEUES, "mine")
    await stand.pass_("mine")
    assert "mine" not in stand.types


async def test_a_queue_that_a_lagging_cache_does_not_show_holds_it_too() -> None:
    stand = await Stand().with_type()
    stand.informers.queues.remove(stand.queue("mine"))
    stand.end()
    assert await stand.pass_("mine") == []


async def test_an_answer_that_does_not_name_the_queue_is_no_absence() -> None:
    stand = await Stand().with_type()
    stand.remove(CLUSTER_QUEUES, "mine")
    stand.end()
    stand.trouble("get", NotFound(404, "NotFound", "the server could not find the requested resource"))
    assert await stand.pass_("mine") == []


async def test_somebody_elses_queue_of_the_name_holds_nothing() -> None:
    stand = await Stand().with_type()
    stand.remove(CLUSTER_QUEUES, "mine")
    stand.put(CLUSTER_QUEUES, {"metadata": {"name": "mine"}, "spec": {}})
    stand.end()
    await stand.pass_("mine")
    assert "mine" not in stand.types
    assert stand.names(CLUSTER_QUEUES) == ["mine"]


async def test_a_type_deleted_before_its_finalizer_was_on_needs_none() -> None:
    stand = Stand()
    stand.add(instance_type("mine", accelerator_group="nvidia-tesla-t4"))
    stand.patch(INSTANCE_TYPES, "mine", {"metadata": {"finalizers": ["example.com/other"]}})
    stand.end()
    assert await stand.pass_("mine") == []
    assert stand.finalizers() == ("example.com/other",)


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(Invalid(422, "Invalid", "test failed"), id="the list was another by then"),
        pytest.param(Conflict(409, "Conflict", "try again"), id="a conflict"),
    ],
)
async def test_only_our_finalizer_goes_when_another_goes_at_the_same_time(refusal: Exception) -> None:
    stand = await Stand().with_type()
    stand.patch(INSTANCE_TYPES, "mine", {"metadata": {"finalizers": ["example.com/a", FINALIZER, "example.com/b"]}})
    stand.remove(CLUSTER_QUEUES, "mine")
    stand.end()
    stand.trouble("json_patch", refusal)
    stand.lag(INSTANCE_TYPES)
    stand.patch(INSTANCE_TYPES, "mine", {"metadata": {"finalizers": [FINALIZER, "example.com/b"]}})

    await stand.pass_("mine")

    assert stand.finalizers() == ("example.com/b",)


async def test_a_type_that_is_gone_already_is_no_failure() -> None:
    stand = await Stand().with_type()
    stand.remove(CLUSTER_QUEUES, "mine")
    stand.end()
    stand.lag(INSTANCE_TYPES)
    stand.patch(INSTANCE_TYPES, "mine", {"metadata": {"finalizers": None}})
    await stand.pass_("mine")
    assert "mine" not in stand.types


async def test_a_derived_type_that_is_deleted_lives_again_when_it_has_gone() -> None:
    stand = Stand()
    await stand.pass_(T4)
    await stand.pass_(T4)
    stand.remove(INSTANCE_TYPES, T4)
    await stand.pass_(T4)
    assert T4 not in stand.types
    await stand.pass_(T4)
    assert T4 in stand.types


# --- What wakes it ------------------------------------------------------------------------------------------------


async def test_a_flavor_wakes_the_types_it_derives_and_those_it_feeds() -> None:
    stand = Stand(hardware=False)
    stand.add(instance_type("mine", accelerator_group="nvidia-a10g"))
    woken = {request.name for request in stand.reconciler.types_of_flavor(flavor("a10g", cards=True))}
    assert woken == {
        "mine",
        "gpustack--nvidia-a10g-linux-amd64",
        "gpustack--amd-epyc-7r32--nvidia-a10g-linux-amd64",
    }


async def test_devices_wake_the_types_of_their_cards_managed_or_not() -> None:
    stand = Stand(hardware=False)
    stand.add(instance_type("mine", accelerator_group="nvidia-a10g"), instance_type("other", general_group="generic"))
    a10g = walkthrough_devices()[0]
    assert stand.reconciler.types_of_devices(a10g) == [Request("mine")]
