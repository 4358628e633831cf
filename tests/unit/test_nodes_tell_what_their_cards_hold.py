"""Counting resources and fit labels of a Node: they follow plugin, ledger and management, and only they are touched."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gpustack_op.api.core import NODES
from gpustack_op.api.nfd import NODE_FEATURES
from gpustack_op.api.worker import DEVICES
from gpustack_op.operator.fit_labels import FitLabelsReconciler
from gpustack_op.operator.node_capacity import NodeCapacityReconciler, capacity_patch, is_counting
from gpustack_op.operator.node_states import NodeStates
from gpustack_op.runtime.controller import Request
from tests.builders import agent_feature, devices, free, node, sliced, worker_feature
from tests.memory_cluster import MemoryCluster

NODE = "node-a10g"
SLICED = "nvidia.com/gpu.sliced"
COUNTED = {
    f"{SLICED}.units": "1600000",
    f"{SLICED}.cores-percentage": "12800",
    f"{SLICED}.memory-percentage": "100",
    f"{SLICED}.memory-mib": "24576",
}
FIT = {
    "sliced-max-free-units.fit.gpustack.ai/nvidia-a10g": "1600000",
    "shared-free-cards.fit.gpustack.ai/nvidia-a10g": "1",
}


@pytest.mark.parametrize(
    ("capacity", "managed", "patch"),
    [
        pytest.param({SLICED: "128"}, True, COUNTED, id="the plugin is there"),
        pytest.param({SLICED: "128", **COUNTED}, True, {}, id="all of it is there already"),
        pytest.param(
            {SLICED: "128", **COUNTED, f"{SLICED}.units": "1600k"}, True, {}, id="the same in another spelling"
        ),
        pytest.param({SLICED: "0", **COUNTED}, True, dict.fromkeys(COUNTED), id="the plugin is gone"),
        pytest.param({"cpu": "4"}, True, {}, id="there never was a plugin"),
        pytest.param({SLICED: "128", **COUNTED}, False, dict.fromkeys(COUNTED), id="not managed"),
        pytest.param(
            {SLICED: "128", **COUNTED, "nvidia.com/gpu.partitioned.mig-1g.5gb": "7"},
            True,
            {"nvidia.com/gpu.partitioned.mig-1g.5gb": None},
            id="a profile of before",
        ),
    ],
)
def test_capacity(capacity: dict[str, str], managed: bool, patch: dict[str, str | None]) -> None:
    assert capacity_patch(capacity, devices(NODE, free()), managed=managed) == patch


def test_without_devices_nothing_is_counted() -> None:
    assert capacity_patch({SLICED: "128", **COUNTED}, None, managed=True) == dict.fromkeys(COUNTED)


@pytest.mark.parametrize(
    ("resource", "ours"),
    [
        pytest.param("nvidia.com/gpu", False, id="cards"),
        pytest.param("nvidia.com/gpu.shared", False, id="shares"),
        pytest.param("nvidia.com/gpu.sliced", False, id="slices"),
        pytest.param("nvidia.com/gpu.partitioned", False, id="partitions"),
        pytest.param("device.gpustack.ai/nvidia.visibility", False, id="visibility"),
        pytest.param("cpu", False, id="cores"),
        pytest.param("nvidia.com/gpu.sliced.units", True, id="units"),
        pytest.param("nvidia.com/gpu.partitioned.mig-1g.5gb", True, id="a profile"),
    ],
)
def test_pool_keys_are_the_kubelets(resource: str, ours: bool) -> None:
    assert is_counting(resource) is ours


class Stand(MemoryCluster):
    def __init__(self) -> None:
        super().__init__()
        clock = asyncio.get_running_loop().time
        self.states = NodeStates(self.informers, self.settings, namespace="gpustack-system", clock=clock)
        self.reconcilers = (
            NodeCapacityReconciler(self.informers, self.client, self.writer(), self.states),
            FitLabelsReconciler(self.informers, self.client, self.writer(), self.states),
        )
        self.add(node("a10g"), worker_feature("a10g"), agent_feature("a10g"), devices(NODE, free()))
        self.patch(NODES, NODE, {"status": {"capacity": {SLICED: "128"}}})

    async def pass_(self) -> list[str]:
        self.writes_since()
        for reconciler in self.reconcilers:
            await reconciler.reconcile(Request(NODE))
        return self.writes_since()

    def ledger(self, percent: int) -> None:
        self.remove(DEVICES, NODE)
        self.add(devices(NODE, sliced(percent)))

    def fit(self) -> dict[str, str]:
        present = self.read(NODES, NODE).labels
        return {key: value for key, value in present.items() if ".fit.gpustack.ai/" in key}

    def counted(self) -> dict[str, Any]:
        capacity = self.read(NODES, NODE).status.capacity or {}
        return {key: value for key, value in capacity.items() if is_counting(key)}


async def test_both_appear_and_then_there_is_peace() -> None:
    stand = Stand()
    assert await stand.pass_() == ["merge_patch node-a10g", "merge_patch node-a10g"]
    assert (stand.counted(), stand.fit()) == (COUNTED, FIT)
    assert await stand.pass_() == []


async def test_fit_follows_the_ledger_and_the_count_does_not() -> None:
    stand = Stand()
    await stand.pass_()
    stand.ledger(60)
    assert await stand.pass_() == ["merge_patch node-a10g"]
    assert stand.fit() == {
        "sliced-max-free-units.fit.gpustack.ai/nvidia-a10g": "640000",
        "shared-free-cards.fit.gpustack.ai/nvidia-a10g": "0",
    }


async def test_a_label_that_somebody_rewrote_is_put_back() -> None:
    stand = Stand()
    await stand.pass_()
    stand.patch(NODES, NODE, {"metadata": {"labels": {next(iter(FIT)): "7", "mine": "kept"}}})
    await stand.pass_()
    assert stand.fit() == FIT
    assert stand.read(NODES, NODE).labels["mine"] == "kept"


async def test_both_go_with_the_management_of_the_node() -> None:
    stand = Stand()
    await stand.pass_()
    stand.patch(
        NODE_FEATURES,
        f"{NODE}-gpustack-worker",
        {"spec": {"labels": {"gpustack.ai/managed": "false"}}},
        namespace="gpustack-system",
    )
    await stand.pass_()
    assert (stand.counted(), stand.fit()) == ({}, {})
    assert (stand.read(NODES, NODE).status.capacity or {})[SLICED] == "128"


async def test_a_node_that_is_gone_is_left_alone() -> None:
    stand = Stand()
    stand.remove(NODES, NODE)
    assert await stand.pass_() == []
