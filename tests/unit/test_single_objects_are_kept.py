"""The objects there is one of: the catalog's rows, the per-card check, the topology, the rule for discovery."""

from __future__ import annotations

from typing import Any

import pytest

from gpustack_op.api.kueue import ADMISSION_CHECKS, RESOURCE_FLAVORS, TOPOLOGIES
from gpustack_op.api.nfd import NODE_FEATURE_RULES
from gpustack_op.api.worker import DEVICES, INSTANCE_TYPE_FLAVORS
from gpustack_op.operator.admission_check import AdmissionCheckReconciler
from gpustack_op.operator.instance_type_flavor import InstanceTypeFlavorReconciler
from gpustack_op.operator.node_feature_rule import NodeFeatureRuleReconciler
from gpustack_op.operator.topology import TopologyReconciler
from gpustack_op.runtime.controller import Request
from tests.builders import flavor, walkthrough_devices, walkthrough_flavors
from tests.memory_cluster import MemoryCluster

CHECK, RULE, TOPOLOGY = "gpustack-node-devices", "gpustack-cpu-info", "gpustack"
ROWS = ["gpustack--generic", "gpustack--nvidia-a10g", "gpustack--nvidia-tesla-t4"]


class Stand(MemoryCluster):
    def __init__(self) -> None:
        super().__init__()
        self.catalog = InstanceTypeFlavorReconciler(self.informers, self.writer(), self.settings)
        self.check = AdmissionCheckReconciler(self.informers, self.writer())
        self.topology = TopologyReconciler(self.informers, self.writer())
        self.rule = NodeFeatureRuleReconciler(self.informers, self.writer())

    async def pass_(self, reconciler: Any) -> list[str]:
        self.writes_since()
        await reconciler.reconcile(reconciler.ONLY)
        return self.writes_since()


@pytest.fixture
def stand() -> Stand:
    return Stand()


async def test_the_catalog_follows_hardware_and_awareness(stand: Stand) -> None:
    stand.add(*walkthrough_flavors(), *walkthrough_devices())
    await stand.pass_(stand.catalog)
    assert stand.names(INSTANCE_TYPE_FLAVORS) == ROWS
    stand.set(instance_type_aware_cpu_manufacturer="true")
    await stand.pass_(stand.catalog)
    assert stand.names(INSTANCE_TYPE_FLAVORS) == [
        "gpustack--amd-epyc-7r13",
        "gpustack--amd-epyc-7r32",
        "gpustack--amd-epyc-7r32--nvidia-a10g",
        "gpustack--intel-xeon-platinum-8259cl",
        "gpustack--intel-xeon-platinum-8259cl--nvidia-tesla-t4",
    ]
    stand.set(instance_type_aware_cpu_manufacturer="false")
    await stand.pass_(stand.catalog)
    assert stand.names(INSTANCE_TYPE_FLAVORS) == ROWS


async def test_an_unchanged_catalog_is_not_written(stand: Stand) -> None:
    stand.add(*walkthrough_flavors(), *walkthrough_devices())
    await stand.pass_(stand.catalog)
    assert await stand.pass_(stand.catalog) == []


async def test_a_row_that_was_edited_or_removed_comes_back(stand: Stand) -> None:
    stand.add(*walkthrough_flavors(), *walkthrough_devices())
    await stand.pass_(stand.catalog)
    stand.patch(INSTANCE_TYPE_FLAVORS, "gpustack--nvidia-a10g", {"spec": {"product": "H100"}})
    stand.remove(INSTANCE_TYPE_FLAVORS, "gpustack--generic")
    assert await stand.pass_(stand.catalog) == ["create gpustack--generic", "apply gpustack--nvidia-a10g"]


async def test_a_row_somebody_added_goes(stand: Stand) -> None:
    stand.put(INSTANCE_TYPE_FLAVORS, {"metadata": {"name": "made-up"}, "spec": {}})
    assert await stand.pass_(stand.catalog) == ["delete made-up"]
    assert await stand.pass_(stand.catalog) == []


async def test_hardware_that_went_has_no_row_while_its_flavor_is_still_going(stand: Stand) -> None:
    stand.add(flavor("a10g", cards=True))
    await stand.pass_(stand.catalog)
    key = "acceleratable.feature.gpustack.ai/nvidia-a10g.capacity"
    name = flavor("a10g", cards=True).name
    stand.patch(RESOURCE_FLAVORS, name, {"metadata": {"labels": {key: "0"}}})
    await stand.pass_(stand.catalog)
    assert stand.names(INSTANCE_TYPE_FLAVORS) == []


async def test_a_flavor_of_an_earlier_naming_beside_the_new_one_shows_once(stand: Stand) -> None:
    stand.add(flavor("a10g", cards=True), flavor("a10g", cards=True, name="gpustack-old-a10g"))
    await stand.pass_(stand.catalog)
    assert stand.names(INSTANCE_TYPE_FLAVORS) == ["gpustack--nvidia-a10g"]


async def test_what_cards_can_do_reaches_the_row(stand: Stand) -> None:
    stand.add(flavor("a10g", cards=True))
    await stand.pass_(stand.catalog)
    assert stand.read(INSTANCE_TYPE_FLAVORS, "gpustack--nvidia-a10g").spec.sliceable is None
    stand.add(*walkthrough_devices())
    await stand.pass_(stand.catalog)
    assert stand.read(INSTANCE_TYPE_FLAVORS, "gpustack--nvidia-a10g").spec.sliceable is True
    stand.remove(DEVICES, "node-a10g")
    await stand.pass_(stand.catalog)
    assert stand.read(INSTANCE_TYPE_FLAVORS, "gpustack--nvidia-a10g").spec.sliceable is None


async def test_the_check_says_that_its_controller_is_there(stand: Stand) -> None:
    await stand.pass_(stand.check)
    check = stand.read(ADMISSION_CHECKS, CHECK)
    assert check.spec.controller_name == "worker.gpustack.ai/node-devices"
    assert [(c.type, c.status) for c in check.status.conditions or ()] == [("Active", "True")]
    assert await stand.pass_(stand.check) == []


async def test_a_check_that_was_edited_is_put_right(stand: Stand) -> None:
    await stand.pass_(stand.check)
    inactive = [{"type": "Active", "status": "False", "reason": "Off", "message": "", "observedGeneration": 1}]
    stand.patch(ADMISSION_CHECKS, CHECK, {"status": {"conditions": inactive}})
    await stand.pass_(stand.check)
    check = stand.read(ADMISSION_CHECKS, CHECK)
    assert [(c.type, c.status) for c in check.status.conditions or ()] == [("Active", "True")]


async def test_the_topology_has_the_node_as_its_one_level(stand: Stand) -> None:
    assert await stand.pass_(stand.topology) == [f"create {TOPOLOGY}"]
    levels = stand.read(TOPOLOGIES, TOPOLOGY).spec.levels
    assert [level.node_label for level in levels] == ["kubernetes.io/hostname"]
    assert await stand.pass_(stand.topology) == []


async def test_the_rule_marks_nodes_without_cards_unless_the_bus_or_the_agent_says_otherwise(stand: Stand) -> None:
    assert await stand.pass_(stand.rule) == [f"create {RULE}"]
    rules = (stand.read(NODE_FEATURE_RULES, RULE).spec or {})["rules"]
    assert [list(branch["matchFeatures"][0]) for branch in rules[0]["matchAny"]] == [
        ["feature", "matchExpressions"],
        ["feature", "matchExpressions"],
    ]
    assert [branch["matchFeatures"][0]["feature"] for branch in rules[0]["matchAny"]] == [
        "pci.device",
        "gpustack.device",
    ]
    assert rules[1]["labels"] == {"feature.gpustack.ai/acceleratable": "false"}
    assert await stand.pass_(stand.rule) == []


SINGLES = [
    pytest.param("check", ADMISSION_CHECKS, CHECK, id="the check"),
    pytest.param("topology", TOPOLOGIES, TOPOLOGY, id="the topology"),
    pytest.param("rule", NODE_FEATURE_RULES, RULE, id="the rule"),
]


@pytest.mark.parametrize(("which", "resource", "name"), SINGLES)
async def test_a_deleted_one_comes_back_and_one_that_is_going_is_waited_for(
    stand: Stand, which: str, resource: Any, name: str
) -> None:
    reconciler = getattr(stand, which)
    await stand.pass_(reconciler)
    stand.patch(resource, name, {"metadata": {"finalizers": ["a/b"]}})
    stand.remove(resource, name)
    assert await stand.pass_(reconciler) == []
    stand.patch(resource, name, {"metadata": {"finalizers": None}})
    assert (await stand.pass_(reconciler))[0] == f"create {name}"


@pytest.mark.parametrize(("which", "resource", "name"), SINGLES)
async def test_another_of_the_kind_concerns_nobody(stand: Stand, which: str, resource: Any, name: str) -> None:
    await getattr(stand, which).reconcile(Request(f"not-{name}"))
    assert stand.names(resource) == []
