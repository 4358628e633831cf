"""The operator's NodeFeature comes back and heals; the managed mark in it belongs to people."""

from __future__ import annotations

import msgspec
import pytest

from gpustack_op.api.core import NODES
from gpustack_op.api.nfd import NODE_FEATURES
from gpustack_op.operator.node_feature import NodeFeatureReconciler
from gpustack_op.runtime.controller import Request
from gpustack_op.runtime.errors import Conflict
from tests.builders import agent_feature, bare_node
from tests.memory_cluster import MemoryCluster

NAMESPACE = "gpustack-system"
WORKER = "node-cpu-gpustack-worker"
MANAGED = "gpustack.ai/managed"
KEY = "general.feature.gpustack.ai/amd-epyc-7r13"
NODE = Request("node-cpu")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Stand(MemoryCluster):
    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.start()

    def start(self) -> None:
        """A new process."""
        self.reconciler = NodeFeatureReconciler(
            self.informers, self.writer(), self.client, self.recorder, self.settings,
            namespace=NAMESPACE, clock=self.clock,
        )  # fmt: skip

    async def pass_(self) -> list[str]:
        """The writes of one reconcile."""
        self.writes_since()
        self.again = (await self.reconciler.reconcile(NODE)).requeue_after
        return self.writes_since()

    @property
    def published(self) -> dict[str, str]:
        return dict(self.read(NODE_FEATURES, WORKER, NAMESPACE).spec.labels or {})

    def edit(self, **values: str | None) -> None:
        """A person edits the NodeFeature's labels; `managed` stands for its full key."""
        labels = {MANAGED if name == "managed" else name: value for name, value in values.items()}
        self.patch(NODE_FEATURES, WORKER, {"spec": {"labels": labels}}, namespace=NAMESPACE)

    def label_node(self, value: str | None) -> None:
        self.patch(NODES, "node-cpu", {"metadata": {"labels": {MANAGED: value}}})

    @property
    def node_marks(self) -> tuple[str | None, str | None]:
        """The managed mark on the Node: its label, its annotation."""
        node = self.read(NODES, "node-cpu")
        return node.labels.get(MANAGED), node.annotations.get(MANAGED)


@pytest.fixture
def stand() -> Stand:
    made = Stand()
    made.add(bare_node("cpu"), agent_feature("cpu"))
    return made


async def test_a_new_node_gets_a_node_feature_and_then_peace(stand: Stand) -> None:
    assert await stand.pass_() == [f"create {WORKER}"]
    assert stand.published[MANAGED] == "true"
    assert stand.published[KEY] == "true"
    assert await stand.pass_() == []


async def test_a_node_whose_cpu_is_unknown_is_looked_at_again_when_the_grace_is_over() -> None:
    stand = Stand()
    stand.add(bare_node("cpu"))

    await stand.pass_()
    assert stand.published == {MANAGED: "true"}
    assert stand.again == 60.0
    stand.clock.now += 60
    await stand.pass_()

    assert stand.published["general.feature.gpustack.ai/amd-25-1"] == "true"
    assert stand.again is None


async def test_a_deleted_node_feature_comes_back(stand: Stand) -> None:
    await stand.pass_()
    stand.remove(NODE_FEATURES, WORKER, namespace=NAMESPACE)
    assert await stand.pass_() == [f"create {WORKER}"]


async def test_edited_labels_are_put_back_and_foreign_ones_stay(stand: Stand) -> None:
    await stand.pass_()
    stand.edit(**{KEY: "false", "general.feature.gpustack.ai/made-up": "true", "team.example.com/zone": "a"})

    await stand.pass_()

    assert stand.published[KEY] == "true"
    assert "general.feature.gpustack.ai/made-up" not in stand.published
    assert stand.published["team.example.com/zone"] == "a"
    assert await stand.pass_() == []


async def test_an_opt_out_stays_and_is_remembered_on_the_node(stand: Stand) -> None:
    await stand.pass_()
    stand.edit(managed="false")
    assert await stand.pass_() == ["merge_patch node-cpu"]
    assert stand.published[MANAGED] == "false"
    assert stand.node_marks == (None, "false")
    assert await stand.pass_() == []


async def test_an_opt_out_survives_its_node_feature_and_the_process(stand: Stand) -> None:
    await stand.pass_()
    stand.edit(managed="false")
    await stand.pass_()
    stand.remove(NODE_FEATURES, WORKER, namespace=NAMESPACE)
    stand.start()

    await stand.pass_()

    assert stand.published[MANAGED] == "false"


async def test_who_opts_in_again_is_not_remembered_as_out(stand: Stand) -> None:
    await stand.pass_()
    stand.edit(managed="false")
    await stand.pass_()
    stand.edit(managed="true")
    await stand.pass_()
    assert stand.node_marks == (None, None)


async def test_an_edit_between_our_read_and_our_write_is_not_reverted(stand: Stand) -> None:
    await stand.pass_()
    stand.lag(NODE_FEATURES)
    stand.edit(managed="false")
    stand.patch(NODES, "node-cpu", {"status": {"capacity": {"cpu": "8"}}})

    assert await stand.pass_() == [f"apply {WORKER}"]

    assert stand.published[f"{KEY}.count"] == "8"
    assert stand.published[MANAGED] == "false"


async def test_a_node_feature_that_a_lagging_cache_does_not_show_is_left_as_it_is(stand: Stand) -> None:
    await stand.pass_()
    stand.edit(managed="false")
    stand.informers.node_features.remove(stand.read(NODE_FEATURES, WORKER, NAMESPACE))

    await stand.pass_()

    assert stand.published[MANAGED] == "false"


async def test_a_label_edited_on_the_node_is_put_back_and_the_right_place_is_told(stand: Stand) -> None:
    await stand.pass_()
    stand.label_node("true")
    await stand.pass_()
    stand.label_node("false")

    assert await stand.pass_() == []
    assert stand.again == 3.0
    stand.clock.now += 3
    await stand.pass_()

    assert stand.node_marks == ("true", None)
    assert stand.told.events == [
        (
            "ManagedLabelPutBack",
            'Node "node-cpu": label gpustack.ai/managed=false was set back to "true"; '
            "edit spec.labels of NodeFeature gpustack-system/node-cpu-gpustack-worker instead",
        )
    ]


async def test_a_label_that_discovery_has_yet_to_bring_is_no_edit(stand: Stand) -> None:
    await stand.pass_()
    stand.label_node("true")
    stand.edit(managed="false")
    await stand.pass_()
    stand.clock.now += 1
    stand.label_node("false")
    await stand.pass_()
    stand.clock.now += 3
    assert await stand.pass_() == []
    assert stand.told.events == []


async def test_manual_mode_leaves_the_mark_to_people(stand: Stand) -> None:
    stand.set(node_management_manual="true")
    stand.label_node("true")
    await stand.pass_()
    assert MANAGED not in stand.published
    stand.clock.now += 60
    assert await stand.pass_() == []
    assert stand.node_marks == ("true", None)


async def test_when_manual_mode_ends_everybody_joins_but_those_who_opted_out(stand: Stand) -> None:
    stand.set(node_management_manual="true")
    stand.label_node("false")
    await stand.pass_()
    stand.set(node_management_manual="false")
    await stand.pass_()
    assert stand.published[MANAGED] == "false"


async def test_a_mark_that_a_person_sets_while_manual_mode_ends_wins(stand: Stand) -> None:
    stand.set(node_management_manual="true")
    await stand.pass_()
    stand.lag(NODE_FEATURES)
    stand.edit(managed="false")
    stand.set(node_management_manual="false")

    with pytest.raises(Conflict):
        await stand.reconciler.reconcile(NODE)

    assert stand.published[MANAGED] == "false"


async def test_nothing_is_written_for_a_node_that_is_going(stand: Stand) -> None:
    stand.patch(NODES, "node-cpu", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}})
    assert await stand.pass_() == []


async def test_a_node_feature_that_is_going_is_waited_for(stand: Stand) -> None:
    await stand.pass_()
    stand.patch(NODE_FEATURES, WORKER, {"metadata": {"finalizers": ["a/b"]}}, namespace=NAMESPACE)
    stand.remove(NODE_FEATURES, WORKER, namespace=NAMESPACE)
    assert await stand.pass_() == []


async def test_a_former_nodes_node_feature_is_left_to_the_garbage_collector(stand: Stand) -> None:
    await stand.pass_()
    stand.remove(NODES, "node-cpu")
    anew = bare_node("cpu")
    stand.add(msgspec.structs.replace(anew, metadata=msgspec.structs.replace(anew.metadata, uid="another")))
    assert await stand.pass_() == []
    stand.remove(NODE_FEATURES, WORKER, namespace=NAMESPACE)
    assert await stand.pass_() == [f"create {WORKER}"]


async def test_a_node_feature_that_lost_its_owner_gets_it_back(stand: Stand) -> None:
    await stand.pass_()
    stand.patch(NODE_FEATURES, WORKER, {"metadata": {"ownerReferences": None}}, namespace=NAMESPACE)
    await stand.pass_()
    assert stand.read(NODE_FEATURES, WORKER, NAMESPACE).controlled_by("uid-of-node-cpu")
