"""A flavor follows the nodes behind it, and goes only when no queue lists it and no Workload is on it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from gpustack_op.api.core import NODES
from gpustack_op.api.kueue import CLUSTER_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from gpustack_op.operator.flavor_derivation import (
    FlavorDerivationReconciler,
    flavors_of_workload,
    nothing_offered,
    requests_of_queue,
    requests_of_workload,
)
from gpustack_op.operator.node_states import NodeStates
from gpustack_op.runtime.controller import Request
from tests.builders import agent_feature, cluster_queue, flavor, node, stored_flavor, worker_feature, workload
from tests.memory_cluster import MemoryCluster

NAMESPACE = "gpustack-system"
CPU = "gpustack--amd-epyc-7r32-linux-amd64-4c"
CARDS = "gpustack--amd-epyc-7r32--nvidia-a10g-linux-amd64-1d"
CAPACITY = "acceleratable.feature.gpustack.ai/nvidia-a10g.capacity"


class Stand(MemoryCluster):
    def __init__(self) -> None:
        super().__init__()
        clock = asyncio.get_running_loop().time
        self.states = NodeStates(self.informers, self.settings, namespace=NAMESPACE, clock=clock)
        self.reconciler = FlavorDerivationReconciler(self.informers, self.client, self.writer(), self.states)
        self.add(node("a10g"), worker_feature("a10g"), agent_feature("a10g"))

    async def pass_(self, name: str = CARDS) -> list[str]:
        self.writes_since()
        await self.reconciler.reconcile(Request(name))
        return self.writes_since()

    async def with_flavor(self) -> Stand:
        await self.pass_()
        return self

    def annotate(self, patch: dict[str, Any]) -> None:
        self.patch(RESOURCE_FLAVORS, CARDS, {"metadata": patch})

    def list_in_queue(self) -> None:
        self.add(cluster_queue("pool", quotas={CARDS: "0"}))

    def unlist(self) -> None:
        self.add(cluster_queue("pool"))


async def test_a_flavor_is_made_once_and_left_in_peace() -> None:
    stand = Stand()
    assert await stand.pass_() == [f"create {CARDS}"]
    assert stand.flavor(CARDS).labels[CAPACITY] == "1"
    assert stand.flavor(CARDS).spec.topology_name == "gpustack"
    assert await stand.pass_() == []


async def test_another_node_of_the_kind_raises_the_capacity() -> None:
    stand = await Stand().with_flavor()
    for thing in (node("a10g"), worker_feature("a10g"), agent_feature("a10g")):
        stand.add(twin(thing))
    assert await stand.pass_() == [f"apply {CARDS}"]
    assert stand.flavor(CARDS).labels[CAPACITY] == "2"


def twin(thing: Any) -> Any:
    """The same of a second node of this kind."""
    text = msgspec.json.encode(thing).decode().replace("node-a10g", "node-twin")
    return msgspec.json.decode(text, type=type(thing))


async def test_edited_labels_and_notes_are_put_back() -> None:
    stand = await Stand().with_flavor()
    stand.annotate(
        {
            "labels": {CAPACITY: "64", "acceleratable.feature.gpustack.ai/nvidia-h100": "true", "team": "b"},
            "annotations": {"note.gpustack.ai/product": "H100", "note.gpustack.ai/extra": "x"},
        }
    )
    await stand.pass_()
    healed = stand.flavor(CARDS)
    assert healed.labels[CAPACITY] == "1"
    assert "acceleratable.feature.gpustack.ai/nvidia-h100" not in healed.labels
    assert healed.labels["team"] == "b"
    assert healed.annotations["note.gpustack.ai/product"] == "NVIDIA-A10G"
    assert "note.gpustack.ai/extra" not in healed.annotations
    assert await stand.pass_() == []


async def test_a_flavor_nobody_backs_first_offers_nothing() -> None:
    stand = await Stand().with_flavor()
    stand.list_in_queue()
    stand.remove(NODES, "node-a10g")
    assert await stand.pass_() == [f"merge_patch {CARDS}"]
    assert stand.flavor(CARDS).labels[CAPACITY] == "0"


async def test_it_stays_while_a_queue_lists_it() -> None:
    stand = await Stand().with_flavor()
    stand.list_in_queue()
    stand.remove(NODES, "node-a10g")
    await stand.pass_()
    assert await stand.pass_() == []
    stand.unlist()
    assert await stand.pass_() == [f"delete {CARDS}"]


async def test_it_stays_while_a_workload_is_on_it_and_goes_when_that_has_finished() -> None:
    stand = await Stand().with_flavor()
    stand.add(workload(CARDS, name="w", QuotaReserved="True", Admitted="True"))
    stand.remove(NODES, "node-a10g")
    await stand.pass_()
    assert await stand.pass_() == []
    stand.add(workload(CARDS, name="w", QuotaReserved="True", Admitted="True", Finished="True"))
    assert await stand.pass_() == [f"delete {CARDS}"]


async def test_it_stays_while_an_evicted_workload_still_has_its_admission() -> None:
    stand = await Stand().with_flavor()
    stand.add(workload(CARDS, name="w", QuotaReserved="True", Evicted="True"))
    stand.remove(NODES, "node-a10g")
    await stand.pass_()
    assert await stand.pass_() == []
    stand.remove(WORKLOADS, "w", namespace="default")
    assert await stand.pass_() == [f"delete {CARDS}"]


async def test_a_node_that_returns_meanwhile_takes_its_flavor_back() -> None:
    stand = await Stand().with_flavor()
    stand.list_in_queue()
    stand.remove(NODES, "node-a10g")
    await stand.pass_()
    stand.add(node("a10g"))
    assert await stand.pass_() == [f"apply {CARDS}"]
    assert stand.flavor(CARDS).labels[CAPACITY] == "1"


async def test_a_terminating_flavor_is_not_used_again_and_is_made_anew_when_it_has_gone() -> None:
    stand = await Stand().with_flavor()
    stand.annotate({"finalizers": ["kueue.x-k8s.io/resource-in-use"]})
    stand.remove(RESOURCE_FLAVORS, CARDS)
    assert await stand.pass_() == []
    stand.annotate({"finalizers": None})
    assert stand.names(RESOURCE_FLAVORS) == []
    assert await stand.pass_() == [f"create {CARDS}"]


async def test_a_spec_that_must_change_goes_the_same_way_since_kueue_has_it_immutable() -> None:
    stand = await Stand().with_flavor()
    stand.list_in_queue()
    stand.patch(RESOURCE_FLAVORS, CARDS, {"spec": {"topologyName": "another"}})
    assert await stand.pass_() == [f"merge_patch {CARDS}"]
    stand.unlist()
    assert await stand.pass_() == [f"delete {CARDS}"]
    assert await stand.pass_() == [f"create {CARDS}"]
    assert stand.flavor(CARDS).spec.topology_name == "gpustack"


async def test_a_flavor_of_an_earlier_naming_is_retired_like_any_other() -> None:
    stand = Stand()
    earlier = "gpustack-old-a10g"
    stand.add(flavor("a10g", cards=True, name=earlier))
    stand.add(cluster_queue("pool", quotas={earlier: "1600k"}))
    assert await stand.pass_(earlier) == [f"merge_patch {earlier}"]
    assert await stand.pass_(earlier) == []
    stand.unlist()
    assert await stand.pass_(earlier) == [f"delete {earlier}"]


async def test_flavors_of_others_are_never_touched() -> None:
    stand = Stand()
    stand.put(RESOURCE_FLAVORS, {"metadata": {"name": "somebodys"}, "spec": {}})
    stand.put(RESOURCE_FLAVORS, {"metadata": {"name": CARDS}, "spec": {"nodeLabels": {"a": "b"}}})
    assert await stand.pass_("somebodys") == []
    assert await stand.pass_(CARDS) == []


async def test_two_passes_before_the_cache_shows_anything_make_one_flavor() -> None:
    stand = Stand()
    stand.lag(RESOURCE_FLAVORS)
    await asyncio.gather(stand.reconciler.reconcile(Request(CARDS)), stand.reconciler.reconcile(Request(CARDS)))
    assert stand.names(RESOURCE_FLAVORS) == [CARDS]


async def test_a_queue_that_was_deleted_leans_on_nothing() -> None:
    stand = await Stand().with_flavor()
    stand.list_in_queue()
    stand.remove(NODES, "node-a10g")
    await stand.pass_()
    stand.remove(CLUSTER_QUEUES, "pool")
    assert await stand.pass_() == [f"delete {CARDS}"]


def test_what_is_withdrawn_is_every_capacity() -> None:
    assert nothing_offered(stored_flavor({"metadata": {"name": "f", "uid": "u", "labels": {CAPACITY: "4", "a": "b"}}}))[
        "metadata"
    ]["labels"] == {CAPACITY: "0"}


def test_queues_and_workloads_wake_the_flavors_they_lean_on() -> None:
    assert requests_of_queue(cluster_queue("pool", quotas={"a": 1, "b": 2})) == [Request("a"), Request("b")]
    assert requests_of_workload(workload("a", QuotaReserved="True")) == [Request("a")]
    assert flavors_of_workload(workload("a", Finished="True")) == []
