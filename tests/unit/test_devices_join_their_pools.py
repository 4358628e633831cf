"""Devices are in the pools exactly while their node is, say why they are not, and end with their node."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gpustack_op.api.core import NODES
from gpustack_op.api.nfd import NODE_FEATURES
from gpustack_op.api.worker import DEVICES, Devices
from gpustack_op.operator.devices import DevicesReconciler, wanted_marks
from gpustack_op.operator.node_states import ABSENT, NodeState, NodeStates
from gpustack_op.runtime.controller import Request
from gpustack_op.runtime.errors import NotFound
from gpustack_op.scheduling.flavors import contributions
from tests.builders import agent_feature, devices, free, node, node_facts, worker_feature
from tests.memory_cluster import MemoryCluster

NAMESPACE = "gpustack-system"
NODE = Request("node-a10g")
TAINTED = 'Node "node-a10g" is in no pool because of its taint team=b:NoSchedule; remove the taint to add the node'


def state(*, left_out: str = "", general_key: str = "amd-epyc-7r32", flavors: bool = True) -> NodeState:
    offered = {part.flavor: part for part in contributions(node_facts("a10g"))} if flavors else {}
    return NodeState(managed=True, general_key=general_key, left_out=left_out, flavors=offered)


@pytest.mark.parametrize(
    ("of", "marks", "annotations"),
    [
        pytest.param(
            state(),
            {"gpustack.ai/managed": "true", "general.feature.gpustack.ai/amd-epyc-7r32": "true"},
            {},
            id="in its pools",
        ),
        pytest.param(
            state(left_out=TAINTED, flavors=False),
            {"gpustack.ai/managed": "false", "general.feature.gpustack.ai/amd-epyc-7r32": "true"},
            {"gpustack.ai/left-out": TAINTED},
            id="left out, and why",
        ),
        pytest.param(
            state(general_key="", flavors=False), {"gpustack.ai/managed": "false"}, {}, id="the CPU is not known yet"
        ),
        pytest.param(ABSENT, {"gpustack.ai/managed": "false"}, {}, id="nothing is known"),
    ],
)
def test_marks(of: NodeState, marks: dict[str, str], annotations: dict[str, str]) -> None:
    assert wanted_marks("node-a10g", of) == {
        "metadata": {"name": "node-a10g", "labels": marks, "annotations": annotations}
    }


class Stand(MemoryCluster):
    def __init__(self) -> None:
        super().__init__()
        clock = asyncio.get_running_loop().time
        self.states = NodeStates(self.informers, self.settings, namespace=NAMESPACE, clock=clock)
        self.reconciler = DevicesReconciler(self.informers, self.client, self.writer(), self.recorder, self.states)
        self.add(node("a10g"), worker_feature("a10g"), agent_feature("a10g"))
        self.add(devices("node-a10g", free(), managed="", general_key=""))

    async def pass_(self) -> list[str]:
        self.writes_since()
        await self.reconciler.reconcile(NODE)
        return self.writes_since()

    @property
    def devices(self) -> Devices:
        return self.read(DEVICES, "node-a10g")

    def taint(self, *taints: dict[str, Any]) -> None:
        self.patch(NODES, "node-a10g", {"spec": {"taints": list(taints)}})


BARRED = {"key": "team", "value": "b", "effect": "NoSchedule"}


async def test_they_join_with_their_node_and_then_there_is_peace() -> None:
    stand = Stand()
    assert await stand.pass_() == ["apply node-a10g"]
    assert stand.devices.labels["gpustack.ai/managed"] == "true"
    assert stand.devices.labels["acceleratable.feature.gpustack.ai/nvidia-a10g"] == "true"
    assert await stand.pass_() == []


async def test_an_opted_out_nodes_devices_leave_without_a_word() -> None:
    stand = Stand()
    patch = {"spec": {"labels": {"gpustack.ai/managed": "false"}}}
    stand.patch(NODE_FEATURES, "node-a10g-gpustack-worker", patch, namespace=NAMESPACE)
    await stand.pass_()
    assert stand.devices.labels["gpustack.ai/managed"] == "false"
    assert stand.told.events == []


async def test_a_taint_is_told_once_in_both_places_and_forgotten_when_it_is_gone() -> None:
    stand = Stand()
    stand.taint(BARRED)
    await stand.pass_()
    await stand.pass_()
    assert stand.devices.annotations["gpustack.ai/left-out"] == TAINTED
    assert stand.told.events == [("LeftOutOfPools", TAINTED)]
    stand.taint()
    await stand.pass_()
    assert "gpustack.ai/left-out" not in stand.devices.annotations
    assert stand.devices.labels["gpustack.ai/managed"] == "true"


async def test_a_node_without_cards_is_told_too() -> None:
    stand = Stand()
    stand.remove(DEVICES, "node-a10g")
    stand.taint(BARRED)
    assert await stand.pass_() == []
    assert stand.told.events == [("LeftOutOfPools", TAINTED)]


async def test_a_changed_cpu_key_replaces_the_old_one() -> None:
    stand = Stand()
    await stand.pass_()
    stand.patch(DEVICES, "node-a10g", {"metadata": {"labels": {"general.feature.gpustack.ai/amd-23-49": "true"}}})
    await stand.pass_()
    assert "general.feature.gpustack.ai/amd-23-49" not in stand.devices.labels


async def test_the_agents_part_is_left_alone() -> None:
    stand = Stand()
    before = stand.devices
    await stand.pass_()
    assert (stand.devices.spec, stand.devices.status) == (before.spec, before.status)


async def test_they_end_with_their_node() -> None:
    stand = Stand()
    stand.remove(NODES, "node-a10g")
    assert await stand.pass_() == ["delete node-a10g"]
    assert stand.names(DEVICES) == []


async def test_a_lagging_cache_ends_nothing() -> None:
    stand = Stand()
    stand.informers.nodes.remove(stand.read(NODES, "node-a10g"))
    assert await stand.pass_() == []
    assert stand.names(DEVICES) == ["node-a10g"]


async def test_an_answer_that_does_not_name_the_node_ends_nothing() -> None:
    stand = Stand()
    stand.remove(NODES, "node-a10g")
    stand.trouble("get", NotFound(404, "NotFound", "the server could not find the requested resource"))
    assert await stand.pass_() == []
