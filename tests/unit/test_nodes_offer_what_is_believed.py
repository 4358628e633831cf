"""Node and NodeFeatures in, flavors out: what a gap, an opt-out, a taint or a setting changes in what nodes offer."""

from __future__ import annotations

import asyncio

import pytest

from gpustack_op.api.core import NODES
from gpustack_op.api.nfd import NODE_FEATURES, NodeFeature
from gpustack_op.operator.node_states import NodeState, NodeStates
from gpustack_op.scheduling.flavors import flavor
from tests.builders import MACHINES, agent_feature, bare_node, node, node_feature, worker_feature
from tests.memory_cluster import MemoryCluster
from tests.runtime.fake_time import in_fake_time, now

NAMESPACE = "gpustack-system"
CPU = "gpustack--amd-epyc-7r32-linux-amd64-4c"
CARDS = "gpustack--amd-epyc-7r32--nvidia-a10g-linux-amd64-1d"
WHOLE = {CPU, CARDS}


class Stand(MemoryCluster):
    """node-a10g, settled."""

    def __init__(self) -> None:
        super().__init__()
        clock = asyncio.get_running_loop().time
        self.states = NodeStates(self.informers, self.settings, namespace=NAMESPACE, clock=clock)
        self.heard: list[tuple[str, frozenset[str]]] = []
        self.add(node("a10g"), worker_feature("a10g"), agent_feature("a10g"))
        self.states.subscribe(lambda name, flavors: self.heard.append((name, flavors)))

    @property
    def state(self) -> NodeState:
        return self.states.state("node-a10g")

    @property
    def offered(self) -> set[str]:
        return set(self.state.flavors)

    def lose_labels(self) -> None:
        """Discovery's master restarts, and takes all labels off."""
        self.add(bare_node("a10g"))

    def find_labels(self) -> None:
        self.add(node("a10g"))

    def replace(self, feature: NodeFeature) -> None:
        self.remove(NODE_FEATURES, feature.name, namespace=NAMESPACE)
        self.add(feature)

    def opt_out(self) -> None:
        patch = {"spec": {"labels": {"gpustack.ai/managed": "false"}}}
        self.patch(NODE_FEATURES, "node-a10g-gpustack-worker", patch, namespace=NAMESPACE)


@in_fake_time
async def test_a_settled_node_offers_its_cpu_and_its_cards() -> None:
    stand = Stand()
    assert stand.offered == WHOLE
    assert stand.state.managed
    assert stand.state.general_key == "amd-epyc-7r32"
    assert [part.node.name for part in stand.states.of_flavor(CARDS)] == ["node-a10g"]


@in_fake_time
async def test_a_gap_of_thirty_seconds_is_noticed_by_nobody() -> None:
    stand = Stand()
    stand.heard.clear()

    stand.lose_labels()
    await asyncio.sleep(30)
    stand.find_labels()
    await asyncio.sleep(600)

    assert stand.offered == WHOLE
    assert stand.heard == []


@in_fake_time
async def test_a_gap_of_ten_minutes_takes_the_node_out_after_the_grace_and_puts_it_back_at_once() -> None:
    stand = Stand()
    stand.heard.clear()

    stand.lose_labels()
    await asyncio.sleep(59)
    assert stand.offered == WHOLE
    await asyncio.sleep(2)
    assert stand.offered == set()
    assert stand.heard == [("node-a10g", frozenset(WHOLE))]
    await asyncio.sleep(539)
    stand.find_labels()

    assert stand.offered == WHOLE


@in_fake_time
async def test_a_gap_for_ever_is_told_once() -> None:
    stand = Stand()
    stand.heard.clear()
    stand.lose_labels()
    await asyncio.sleep(7 * 86400)
    assert stand.offered == set()
    assert stand.heard == [("node-a10g", frozenset(WHOLE))]


@in_fake_time
async def test_labels_that_flap_do_not_wear_out_the_grace() -> None:
    stand = Stand()
    stand.heard.clear()
    for _ in range(20):
        stand.lose_labels()
        await asyncio.sleep(50)
        stand.find_labels()
        await asyncio.sleep(1)
    assert stand.offered == WHOLE
    assert stand.heard == []


@in_fake_time
async def test_a_node_feature_deleted_and_made_again_is_noticed_by_nobody() -> None:
    stand = Stand()
    stand.heard.clear()
    for feature in (worker_feature("a10g"), agent_feature("a10g")):
        stand.remove(NODE_FEATURES, feature.name, namespace=NAMESPACE)
        await asyncio.sleep(30)
        stand.add(feature)
    assert stand.offered == WHOLE
    assert {flavors for _, flavors in stand.heard} <= {frozenset(WHOLE)}


@in_fake_time
async def test_an_agent_that_is_gone_for_good_takes_its_cards_with_it_after_the_grace() -> None:
    stand = Stand()
    stand.remove(NODE_FEATURES, "node-a10g-gpustack-device-manager", namespace=NAMESPACE)
    stand.patch(
        NODES,
        "node-a10g",
        {"metadata": {"labels": {"acceleratable.feature.gpustack.ai/nvidia-a10g": None}}},
    )
    assert stand.offered == WHOLE
    await asyncio.sleep(61)
    assert stand.offered == {CPU}


@in_fake_time
async def test_a_setting_shortens_the_grace() -> None:
    stand = Stand()
    stand.set(node_labels_grace_period="5s")
    stand.lose_labels()
    await asyncio.sleep(6)
    assert stand.offered == set()


@in_fake_time
async def test_an_opt_out_is_believed_at_once_though_the_node_still_says_otherwise() -> None:
    stand = Stand()
    stand.opt_out()
    assert stand.offered == set()
    assert not stand.state.managed
    assert stand.state.left_out == ""


@in_fake_time
async def test_a_node_that_is_deleted_is_no_gap() -> None:
    stand = Stand()
    stand.heard.clear()
    stand.remove(NODES, "node-a10g")
    assert stand.states.of_flavor(CARDS) == []
    assert stand.heard == [("node-a10g", frozenset(WHOLE))]


@in_fake_time
async def test_a_node_that_comes_back_under_its_name_is_judged_anew() -> None:
    stand = Stand()
    stand.remove(NODES, "node-a10g")
    for part in ("worker", "device-manager"):
        stand.remove(NODE_FEATURES, f"node-a10g-gpustack-{part}", namespace=NAMESPACE)
    stand.add(bare_node("a10g"))
    assert stand.offered == set()


@in_fake_time
async def test_only_our_own_node_features_count() -> None:
    stand = Stand()
    stale = node_feature("node-a10g", {"general.feature.gpustack.ai/amd-epyc-7r32.count": "64"}, part="old")
    stand.add(stale)
    assert stand.offered == WHOLE


@in_fake_time
async def test_what_people_label_a_node_with_counts_for_nothing() -> None:
    stand = Stand()
    stand.patch(
        NODES,
        "node-a10g",
        {
            "metadata": {
                "labels": {
                    "acceleratable.feature.gpustack.ai/nvidia-h100": "true",
                    "acceleratable.feature.gpustack.ai/nvidia-h100.count": "99999999999999999999",
                }
            }
        },
    )
    assert stand.offered == WHOLE


@pytest.mark.parametrize("count", ["-1", "0", "007", "1.5", "many", "", "99999999999999999999", "2147483648"])
def test_a_count_that_is_no_count_offers_nothing_and_disturbs_nothing_else(count: str) -> None:
    async def case() -> None:
        stand = Stand()
        labels = {"general.feature.gpustack.ai/amd-epyc-7r32.count": count}
        stand.patch(NODE_FEATURES, "node-a10g-gpustack-worker", {"spec": {"labels": labels}}, namespace=NAMESPACE)
        stand.patch(NODES, "node-a10g", {"metadata": {"labels": labels}})
        assert stand.offered == {CARDS}

    in_fake_time(case)()


@in_fake_time
async def test_manual_mode_reads_the_nodes_own_label() -> None:
    stand = Stand()
    stand.set(node_management_manual="true")
    stand.replace(worker_feature("a10g", managed=""))
    assert stand.offered == WHOLE
    stand.patch(NODES, "node-a10g", {"metadata": {"labels": {"gpustack.ai/managed": None}}})
    assert stand.offered == set()


@in_fake_time
async def test_the_setting_for_mixed_nodes_takes_effect_at_once() -> None:
    stand = Stand()
    stand.set(instance_type_mixed_on_node="false")
    assert stand.offered == {CARDS}
    stand.set(instance_type_mixed_on_node="true")
    assert stand.offered == WHOLE


@in_fake_time
async def test_a_taint_leaves_the_node_out_and_says_why() -> None:
    stand = Stand()
    stand.patch(NODES, "node-a10g", {"spec": {"taints": [{"key": "team", "value": "b", "effect": "NoSchedule"}]}})
    assert stand.offered == set()
    assert stand.state.left_out == (
        'Node "node-a10g" is in no pool because of its taint team=b:NoSchedule; remove the taint to add the node'
    )


@in_fake_time
async def test_nodes_alike_stand_behind_one_flavor_and_each_is_told_of_its_own_changes() -> None:
    stand = Stand()
    for short in ("t4-a", "t4-b", "cpu"):
        stand.add(node(short), worker_feature(short), agent_feature(short))
    stand.heard.clear()

    stand.remove(NODES, "node-t4-b")

    assert stand.heard == [
        (
            "node-t4-b",
            frozenset(
                {
                    "gpustack--intel-xeon-platinum-8259cl-linux-amd64-48c",
                    "gpustack--intel-xeon-platinum-8259cl--nvidia-tesla-t4-linux-amd64-4d",
                }
            ),
        )
    ]


@in_fake_time
async def test_the_four_machines_offer_seven_flavors() -> None:
    stand = Stand()
    for short in ("t4-a", "t4-b", "cpu"):
        stand.add(node(short), worker_feature(short), agent_feature(short))
    offered = {name for short in MACHINES for name in stand.states.state(f"node-{short}").flavors}
    assert len(offered) == 7


@in_fake_time
async def test_a_new_process_derives_the_same_from_what_it_finds() -> None:
    stand = Stand()
    before = flavor(stand.states.of_flavor(CARDS))
    anew = NodeStates(stand.informers, stand.settings, namespace=NAMESPACE, clock=now)
    assert flavor(anew.of_flavor(CARDS)) == before
