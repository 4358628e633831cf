"""What Pods and Workloads ask of accelerators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from gpustack_op.api.core import Container, ContainerResources
from gpustack_op.api.kueue import (
    IndividualValues,
    LevelValues,
    PodCounts,
    PodSetAssignment,
    TopologyAssignment,
    TopologySlice,
)
from gpustack_op.scheduling.manufacturers import Family
from gpustack_op.scheduling.requests import (
    Demand,
    Tenants,
    asked,
    asks_for_cards,
    flavor_of,
    pod_demands,
    pods_by_node,
    topology_nodes,
    workload_demands,
)
from tests.builders import asking, containers, placed

GPU, SHARED, SLICED, PARTITIONED = (
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    "nvidia.com/gpu.sliced",
    "nvidia.com/gpu.partitioned",
)
UNITS, PERCENT, MIB = f"{SLICED}.units", f"{SLICED}.memory-percentage", f"{SLICED}.memory-mib"
HOSTNAME = "kubernetes.io/hostname"
CARD, SHARE = 1_600_000, 160_000
LARGEST = 2**31 - 1


def demand(family: Family, cards: int, units: int, **facts: object) -> Demand:
    return Demand(family=family, manufacturer="nvidia", cards=cards, units=units, **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("resources", "pods", "expected"),
    [
        pytest.param([{GPU: "5"}], 1, [demand(Family.EXCLUSIVE, 5, CARD)], id="five cards"),
        pytest.param([{GPU: "1"}], 5, [demand(Family.EXCLUSIVE, 5, CARD)], id="one card for each of five Pods"),
        pytest.param(
            [{SLICED: "2", UNITS: "320000", f"{SLICED}.cores-percentage": "100"}], 1,
            [demand(Family.SLICED, 2, 320_000)],
            id="two slices",
        ),
        pytest.param(
            [{SLICED: "1", UNITS: "160k"}, {SLICED: "1", UNITS: "480000"}], 1, [demand(Family.SLICED, 2, 480_000)],
            id="of two containers the larger slice counts",
        ),
        pytest.param([{"cpu": "1", "memory": "1Gi"}], 1, [], id="no cards"),
        pytest.param([{GPU: "0"}], 1, [], id="no card"),
        pytest.param([{GPU: "-3"}], 1, [], id="less than no card"),
        pytest.param([{GPU: "many"}], 1, [], id="what is no number"),
        pytest.param([{GPU: "1"}], 0, [], id="no Pod"),
        pytest.param([{UNITS: "320000"}], 1, [], id="units without a slice"),
        pytest.param([{"device.gpustack.ai/nvidia.visibility": "1"}], 1, [], id="sight of another's card"),
        pytest.param([{GPU: "9999999999"}], 9, [demand(Family.EXCLUSIVE, LARGEST, CARD)], id="more than any number"),
        pytest.param(
            [{SHARED: "2"}, {SHARED: "1"}, {SHARED: "2"}], 3,
            [demand(Family.SHARED, 15, SHARE, tenants=(Tenants(2, 6), Tenants(1, 3)))],
            id="shares, each container on cards of its own",
        ),
        pytest.param(
            [{PARTITIONED: "1", f"{PARTITIONED}.mig-3g.40gb": "1", f"{PARTITIONED}.units": "780000"}], 2,
            [demand(Family.PARTITIONED, 2, 780_000, profile="3g.40gb")],
            id="partitions",
        ),
        pytest.param(
            [{PARTITIONED: "1", f"{PARTITIONED}.mig-b": "1", f"{PARTITIONED}.mig-a": "1"}], 1,
            [demand(Family.PARTITIONED, 1, 0, profile="a")],
            id="of two profiles the first by name",
        ),
        pytest.param([{SLICED: "1", PERCENT: "50"}], 1, [demand(Family.SLICED, 1, 800_000)], id="not folded yet"),
        pytest.param([{SLICED: "1", MIB: "12288"}], 1, [demand(Family.SLICED, 1, 800_000)], id="MiB not folded yet"),
        pytest.param(
            [{GPU: "1"}, {"amd.com/gpu": "2"}], 1,
            [replace(demand(Family.EXCLUSIVE, 2, CARD), manufacturer="amd"), demand(Family.EXCLUSIVE, 1, CARD)],
            id="of two manufacturers",
        ),
    ],
)  # fmt: skip
def test_what_pods_ask_for(resources: Sequence[Mapping[str, str]], pods: int, expected: list[Demand]) -> None:
    assert list(pod_demands(containers(*resources), pods=pods, card_mebibytes=24563)) == expected


def test_requests_win_over_limits() -> None:
    stated = ContainerResources(limits={GPU: "1", "cpu": "2"}, requests={"cpu": "500m", GPU: "2"})
    assert asked(Container(resources=stated)) == {GPU: 2, "cpu": 0}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [({GPU: "1"}, True), ({SHARED: "1"}, True), ({UNITS: "1"}, False), ({GPU: "0"}, False), ({"cpu": "1"}, False)],
)
def test_who_asks_for_cards(resources: Mapping[str, str], expected: bool) -> None:
    assert asks_for_cards(containers(resources)[0]) is expected


# --- Where Kueue put them -----------------------------------------------------------------------------------------


def individual(prefix: str, *roots: str, suffix: str = "") -> LevelValues:
    return LevelValues(individual=IndividualValues(prefix=prefix, suffix=suffix, roots=roots))


def part(values: LevelValues, counts: PodCounts, domains: int) -> TopologySlice:
    return TopologySlice(domain_count=domains, pod_counts=counts, values_per_level=(values,))


EACH_ONE = PodCounts(universal=1)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        pytest.param([part(LevelValues(universal="node-t4-a"), EACH_ONE, 1)], {"node-t4-a": 1}, id="one node"),
        pytest.param(
            [part(individual("node-t4-", "a", "c"), EACH_ONE, 2)], {"node-t4-a": 1, "node-t4-c": 1}, id="two nodes"
        ),
        pytest.param([part(LevelValues(universal="b"), PodCounts(universal=2), 1)], {"b": 2}, id="two on one node"),
        pytest.param(
            [part(individual("n", "1", "2", suffix=".x"), PodCounts(individual=(3, 4)), 2)], {"n1.x": 3, "n2.x": 4},
            id="a number for each",
        ),
        pytest.param(
            [part(LevelValues(universal="a"), EACH_ONE, 1), part(individual("", "a", "b"), EACH_ONE, 2)],
            {"a": 2, "b": 1},
            id="a node in two parts",
        ),
        pytest.param([TopologySlice(domain_count=1)], {}, id="a part that says nothing"),
    ],
)  # fmt: skip
def test_a_placement_is_unfolded(parts: Sequence[TopologySlice], expected: dict[str, int]) -> None:
    assert topology_nodes(TopologyAssignment(levels=(HOSTNAME,), slices=tuple(parts))) == expected


def test_a_placement_in_racks_names_no_node() -> None:
    racks = TopologyAssignment(levels=("rack",), slices=(part(LevelValues(universal="r1"), EACH_ONE, 1),))
    assert topology_nodes(racks) is None
    assert pods_by_node(PodSetAssignment(count=3, topology_assignment=racks)) == {"": 3}
    assert pods_by_node(PodSetAssignment(count=3)) == {"": 3}


@pytest.mark.parametrize(
    ("flavors", "expected"),
    [
        ({"cpu": "c", "credits.gpustack.ai/nvidia": "n"}, "n"),
        ({"credits.gpustack.ai/amd": "a", "credits.gpustack.ai/nvidia": "n"}, ""),
        ({"credits.gpustack.ai/acme": "a"}, ""),
        ({"cpu": "c"}, ""),
    ],
)
def test_the_flavor_of_cards(flavors: dict[str, str], expected: str) -> None:
    assert flavor_of(PodSetAssignment(flavors=flavors)) == expected


def test_a_workload_asks_node_by_node() -> None:
    workload = placed("w", asking({GPU: "2"}, count=3), at={"b": 1, "a": 2})
    assert workload_demands(workload) == (
        demand(Family.EXCLUSIVE, 4, CARD, flavor="cards", node="a"),
        demand(Family.EXCLUSIVE, 2, CARD, flavor="cards", node="b"),
    )


def test_pod_sets_that_ask_alike_are_one_demand() -> None:
    first, second = asking({GPU: "1"}, name="driver"), asking({GPU: "1"}, name="worker")
    assert workload_demands(placed("w", first, second, at={"a": 1})) == (
        demand(Family.EXCLUSIVE, 2, CARD, flavor="cards", node="a", pod_sets=("driver", "worker")),
    )


def test_partitions_come_first_then_the_larger() -> None:
    small, large = {SLICED: "1", UNITS: "160000"}, {GPU: "1"}
    partition = {PARTITIONED: "1", f"{PARTITIONED}.mig-1g.10gb": "1"}
    demands = pod_demands(containers(small, large, partition))
    assert [found.family for found in demands] == [Family.PARTITIONED, Family.EXCLUSIVE, Family.SLICED]


def test_without_a_reservation_nothing_is_assigned() -> None:
    workload = placed("w", asking({GPU: "1"}, count=2))
    assert workload_demands(type(workload)(spec=workload.spec)) == (demand(Family.EXCLUSIVE, 2, CARD),)
