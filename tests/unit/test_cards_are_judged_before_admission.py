"""The verdict of the per-card check. The subject is assigned to node `a` unless a case says otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from gpustack_op.api.core import Node, NodeCondition, NodeSpec, NodeStatus, Pod
from gpustack_op.api.kueue import (
    Admission,
    PodSet,
    PodSetAssignment,
    ResourceFlavor,
    ResourceFlavorSpec,
    Workload,
    WorkloadStatus,
)
from gpustack_op.api.worker import DeviceGroup
from gpustack_op.scheduling.card_fit import Inputs, Judgement, NodeSight, Verdict, fitting_nodes, judge
from gpustack_op.scheduling.promises import holds_cards
from gpustack_op.scheduling.records import Entry
from tests.builders import (
    H100_PROFILES,
    asking,
    cards_of,
    given,
    metadata,
    partition_entry,
    placed,
    pod,
    profile,
    share_entry,
    slice_entry,
    whole_entry,
)

GPU, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"
FLAVOR_LABELS = {"acceleratable.feature.gpustack.ai/nvidia-t4": "true", "feature.gpustack.ai/acceleratable": "true"}
READY = {"gpustack-node-devices": "Ready"}

Ask = Mapping[str, str]


def whole(cards: int = 1) -> Ask:
    return {GPU: str(cards)}


def shares(cards: int = 1) -> Ask:
    return {SHARED: str(cards)}


def slices(percent: int, count: int = 1) -> Ask:
    return {"nvidia.com/gpu.sliced": str(count), "nvidia.com/gpu.sliced.units": str(percent * 16_000)}


def partition(name: str) -> Ask:
    return {"nvidia.com/gpu.partitioned": "1", f"nvidia.com/gpu.partitioned.mig-{name}": "1"}


def node(name: str, **facts: object) -> Node:
    conditions = (NodeCondition(type="Ready", status=str(facts.get("ready", "True"))),)
    return Node(
        metadata=metadata(name, labels=dict(facts.get("labels", FLAVOR_LABELS))),  # type: ignore[call-overload]
        spec=NodeSpec(unschedulable=bool(facts.get("unschedulable"))),
        status=NodeStatus(conditions=conditions),
    )


def sight(name: str, groups: Sequence[DeviceGroup], pods: Sequence[Pod] = ()) -> NodeSight:
    return NodeSight(name=name, node=node(name), groups=tuple(groups), pods=tuple(pods))


def flavor(name: str = "cards", key: str = "nvidia-t4") -> ResourceFlavor:
    labels = {f"acceleratable.feature.gpustack.ai/{key}": "true"} if key else {}
    return ResourceFlavor(metadata=metadata(name), spec=ResourceFlavorSpec(node_labels=labels))


def using(*entries: Entry, name: str = "user", **facts: object) -> Pod:
    """A Pod that has these, and asks for something the record knows of."""
    return pod(name, whole(), record=given(*entries), **facts)  # type: ignore[arg-type]


def verdict(
    subject: Workload,
    *,
    on: Sequence[DeviceGroup],
    pods: Sequence[Pod] = (),
    others: Sequence[Workload] = (),
    key: str = "nvidia-t4",
) -> Verdict:
    carrying = node("a", labels={f"acceleratable.feature.gpustack.ai/{key}": "true"})
    nodes = {"a": NodeSight(name="a", node=carrying, groups=tuple(on), pods=tuple(pods))}
    return judge(Inputs(workload=subject, nodes=nodes, flavors={"cards": flavor(key=key)}, others=others))


def subject(*asks: Ask, pods: int = 1, at: Mapping[str, int] | None = None) -> Workload:
    return placed("subject", asking(*asks, count=pods), at=at or {"a": pods})


def t4(number: int) -> list[DeviceGroup]:
    return [cards_of("t4", number)]


def halves(first: int, number: int) -> list[Pod]:
    return [using(slice_entry(f"t4/{first + n}", 50), name=f"half-{n}") for n in range(number)]


# --- Nothing promised ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("on", "pods", "ask", "ready"),
    [
        pytest.param(t4(8), halves(0, 8), whole(5), False, id="eight halves are no five cards"),
        pytest.param(t4(12), halves(0, 12), whole(5), False, id="twelve halves are six cards in sum and none whole"),
        pytest.param(t4(8), halves(5, 3), whole(5), True, id="five whole beside three halves"),
        pytest.param(t4(4), [], whole(5), False, id="one card short"),
        pytest.param(t4(4), halves(0, 4), slices(50, 3), True, id="three halves in four"),
        pytest.param(t4(2), halves(0, 2), slices(100), False, id="a whole slice in two halves"),
        pytest.param(t4(1), [], slices(30, 2), True, id="two slices of 30 on one card"),
        pytest.param(t4(1), [], slices(60, 2), False, id="two slices of 60 on one card"),
        pytest.param([cards_of("t4", 1, slices=1)], halves(0, 1), slices(10), False, id="no slot for one more slice"),
        pytest.param([cards_of("t4", 1, slices=0)], [], slices(10), False, id="a card that takes no slices"),
        pytest.param(t4(2), [using(whole_entry("t4/0"))], shares(2), False, id="two shares and one open card"),
        pytest.param(t4(2), [using(share_entry("t4/0"))], shares(2), True, id="two shares, one beside another"),
        pytest.param(t4(1), [using(share_entry("t4/0"))], slices(10), False, id="a slice on a shared card"),
        pytest.param(t4(1), [using(slice_entry("t4/0", 1))], shares(1), False, id="a share on a sliced card"),
        pytest.param([cards_of("t4", 2, sick=[0])], [], whole(2), False, id="a sick card gives nothing"),
        pytest.param([cards_of("t4", 1), cards_of("a10g", 4)], [], whole(2), False, id="cards of another sort"),
        pytest.param([*t4(0)], [], whole(1), False, id="no cards at all"),
        pytest.param(
            t4(2), [using(whole_entry("t4/0")), using(share_entry("t4/0"), name="z")], shares(1), True,
            id="a card in dispute is passed over",
        ),
        pytest.param(
            t4(1), [using(slice_entry("t4/0", 60), phase="Succeeded")], whole(), True, id="a finished Pod holds nothing"
        ),
        pytest.param(t4(1), [pod("p", whole())], whole(), False, id="a Pod that Kueue never saw, not yet served"),
        pytest.param(t4(1), [pod("p", whole(), phase="Failed")], whole(), True, id="a Pod that failed"),
        pytest.param(t4(1), [pod("p", whole(), record="{")], whole(), False, id="a Pod whose record is unreadable"),
        pytest.param(t4(1), [pod("p", {"cpu": "1"})], whole(), True, id="a Pod without cards"),
    ],
)  # fmt: skip
def test_cards_fit(on: Sequence[DeviceGroup], pods: Sequence[Pod], ask: Ask, ready: bool) -> None:
    expected = Judgement.READY if ready else Judgement.HELD
    assert verdict(subject(ask), on=on, pods=pods).judgement is expected


def h100(number: int, profiles: Sequence[object] = H100_PROFILES) -> list[DeviceGroup]:
    return [cards_of("h100", number, profiles=profiles)]  # type: ignore[arg-type]


def in_use(card: int, name: str, *starts: int, length: int = 1) -> list[Pod]:
    return [
        using(partition_entry(f"h100/{card}", name, start, length), name=f"{card}-{name}-{start}") for start in starts
    ]


BLIND = [profile("1g.10gb", 9856, 1, 1, range(7))]
UNLISTED = [msgspec.structs.replace(BLIND[0], placements=None)]


@pytest.mark.parametrize(
    ("on", "pods", "name", "instances", "ready", "told"),
    [
        pytest.param(h100(2), in_use(1, "1g.10gb", 0, 1, 2), "1g.10gb", 2, True, "", id="7 and 4 places on two cards"),
        pytest.param(h100(1), [], "1g.10gb", 7, True, "", id="seven on one card"),
        pytest.param(h100(1), [], "1g.10gb", 8, False, "asked for 8 1g.10gb partitions", id="eight on one card"),
        pytest.param(h100(1), [], "3g.40gb", 3, False, "no more places for it", id="three halves"),
        pytest.param(
            h100(2), [*in_use(0, "1g.10gb", 0), *in_use(1, "1g.10gb", 3)], "4g.40gb", 1, False,
            "no more places for it (free places: 6 of 1g.10gb",
            id="no card whose first half is free",
        ),
        pytest.param(h100(1, UNLISTED), [], "1g.10gb", 1, False, "are not known yet", id="places not reported yet"),
        pytest.param(t4(1), [], "1g.10gb", 1, False, "no nvidia-h100 card", id="none of that sort"),
        pytest.param(
            [cards_of("h100", 1)], [], "1g.10gb", 1, False, "no nvidia-h100 card is in a partitioning mode",
            id="none in a partitioning mode",
        ),
        pytest.param(
            h100(1), [using(whole_entry("h100/0"))], "1g.10gb", 1, False, "is in use (exclusive)", id="held whole"
        ),
        pytest.param(h100(1), [], "9g", 1, False, "offers no such partition; it has 1g.10gb,", id="not on offer"),
    ],
)  # fmt: skip
def test_partitions_fit(
    on: Sequence[DeviceGroup], pods: Sequence[Pod], name: str, instances: int, ready: bool, told: str
) -> None:
    found = verdict(subject(partition(name), pods=instances), on=on, pods=pods, key="nvidia-h100")
    assert found.judgement is (Judgement.READY if ready else Judgement.HELD)
    assert told in found.sentence


def test_a_slice_of_a_partitioned_card_is_the_wrong_population() -> None:
    assert verdict(subject(slices(50)), on=h100(1), key="nvidia-h100").sentence == (
        "node a: asked for 1 slice of 50 percent of nvidia-h100, but no nvidia-h100 card is given out in slices, "
        "card h100/0 for one is not"
    )
    assert verdict(subject(slices(50)), on=[cards_of("h100", 1)], key="nvidia-h100").judgement is Judgement.READY


# --- Beside what is promised --------------------------------------------------------------------------------------


def other(
    *asks: Ask, name: str = "other", pods: int = 1, at: Mapping[str, int] | None = None, **facts: Any
) -> Workload:
    return placed(name, asking(*asks, count=pods), at=at or {"a": pods}, checks=READY, **facts)


PROMISED = "; cards promised to 1 Pod that have not taken them yet count as taken"


@pytest.mark.parametrize(
    ("on", "pods", "first", "second"),
    [
        pytest.param(
            t4(4), [using(slice_entry(f"t4/{n}", 60), name=f"p{n}") for n in range(3)], slices(60), slices(50),
            id="the one free card was promised to a slice",
        ),
        pytest.param(
            t4(4), [using(whole_entry(f"t4/{n}"), name=f"p{n}") for n in range(3)], whole(), whole(),
            id="the one free card was promised whole",
        ),
        pytest.param(
            t4(1), [using(share_entry("t4/0"), name=f"p{n}") for n in range(9)], shares(), shares(),
            id="the last share was promised",
        ),
    ],
)  # fmt: skip
def test_what_is_promised_counts_as_taken(
    on: Sequence[DeviceGroup], pods: Sequence[Pod], first: Ask, second: Ask
) -> None:
    assert verdict(subject(first), on=on, pods=pods).judgement is Judgement.READY
    found = verdict(subject(second), on=on, pods=pods, others=[other(first)])
    assert found.judgement is Judgement.HELD
    assert found.sentence.endswith(PROMISED)


def test_the_last_place_was_promised() -> None:
    pods = in_use(0, "1g.10gb", *range(6))
    last = partition("1g.10gb")
    assert verdict(subject(last), on=h100(1), pods=pods, key="nvidia-h100").judgement is Judgement.READY
    found = verdict(subject(last), on=h100(1), pods=pods, others=[other(last)], key="nvidia-h100")
    assert found.judgement is Judgement.HELD


def test_a_promised_partition_takes_the_place_it_will_take() -> None:
    # By number alone 4g would fit beside any 1g.20gb; it does because that one goes to the other half.
    promised = [other(partition("1g.20gb")), other(partition("1g.20gb"), name="second")]
    ask = partition("4g.40gb")
    assert verdict(subject(ask), on=h100(1), others=promised, key="nvidia-h100").judgement is Judgement.READY
    third = [*promised, other(partition("1g.20gb"), name="third")]
    assert verdict(subject(ask), on=h100(1), others=third, key="nvidia-h100").judgement is Judgement.HELD


def recorded(percent: int, number: int = 0) -> Pod:
    return pod(f"other-{number}", slices(percent), record=given(slice_entry("t4/0", percent)), workload="other")


@pytest.mark.parametrize(
    ("others", "pods", "judgement"),
    [
        pytest.param(
            [other(slices(40), Admitted="True")], [recorded(40)], Judgement.READY, id="in the record: not counted twice"
        ),
        pytest.param([other(slices(80), Admitted="True")], [recorded(80)], Judgement.HELD, id="in the record"),
        pytest.param(
            [other(slices(30), pods=2, Admitted="True")], [recorded(30)], Judgement.READY, id="one of two in the record"
        ),
        pytest.param([other(slices(40), pods=2)], [], Judgement.HELD, id="two still to come"),
        pytest.param(
            [placed("other", asking(slices(40)), at={"a": 2}, Admitted="True")], [], Judgement.HELD,
            id="admitted without this check",
        ),
        pytest.param([other(slices(40), pods=2, at={"b": 2})], [], Judgement.READY, id="on another node"),
        pytest.param(
            [other(slices(40), pods=2)],
            [pod("other-0", slices(40), workload="other"), recorded(40, 1)],
            Judgement.HELD,
            id="one there and waiting, one in the record",
        ),
        pytest.param(
            [placed("other", asking(slices(70)), at={"a": 1}, checks={"gpustack-node-devices": "Retry"})], [],
            Judgement.READY,
            id="refused",
        ),
        pytest.param(
            [placed("subject", asking(slices(70)), at={"a": 1}, checks=READY)], [], Judgement.READY, id="it is itself"
        ),
        pytest.param(
            [other(slices(70))], [pod("other-0", slices(70), workload="other", phase="Failed")], Judgement.HELD,
            id="one that failed may come again",
        ),
        pytest.param(
            [other(slices(70))], [pod("other-0", slices(70), workload="other", phase="Succeeded")], Judgement.READY,
            id="one that ended well does not",
        ),
        pytest.param(
            [other(slices(70))], [pod("x", slices(10), record=given(slice_entry("t4/0", 10)))], Judgement.HELD,
            id="beside a Pod of nobody",
        ),
    ],
)  # fmt: skip
def test_others_are_counted_once(others: Sequence[Workload], pods: Sequence[Pod], judgement: Judgement) -> None:
    assert verdict(subject(slices(40)), on=t4(1), pods=pods, others=others).judgement is judgement


@pytest.mark.parametrize(
    ("workload", "holds"),
    [
        pytest.param(placed("w", checks=READY), True, id="said Ready"),
        pytest.param(placed("w", Admitted="True"), True, id="admitted without this check"),
        pytest.param(placed("w", checks={"gpustack-node-devices": "Retry"}), False, id="said Retry"),
        pytest.param(placed("w", checks={"gpustack-node-devices": "Pending"}), False, id="not judged yet"),
        pytest.param(placed("w", checks={"another": "Ready"}), False, id="another check"),
        pytest.param(placed("w", checks=READY, QuotaReserved="False"), False, id="without a reservation"),
        pytest.param(placed("w", checks=READY, Evicted="True"), False, id="evicted"),
        pytest.param(placed("w", Admitted="True", Finished="True"), False, id="finished"),
        pytest.param(placed("w", checks=READY, active=False), False, id="inactive"),
    ],
)
def test_who_holds_cards(workload: Workload, holds: bool) -> None:
    assert holds_cards(workload) is holds


def test_what_fits_in_one_order_only_waits_for_the_promises() -> None:
    # 60 and 50 percent are free. A half that comes first fits the second card exactly; a tenth that comes before it
    # goes there, and the half to the first card, so that no other half fits anywhere.
    pods = [using(slice_entry("t4/0", 40), name="p0"), using(slice_entry("t4/1", 50), name="p1")]
    promised = [other(slices(50), name="half"), other(slices(10), name="tenth")]
    found = verdict(subject(slices(50)), on=t4(2), pods=pods, others=promised)
    assert found.judgement is Judgement.WAIT
    assert found.sentence == "node a: it fits once 2 Pods that were promised cards there have taken them"
    assert found.candidates == ("a",)


def test_many_equal_promises_are_judged() -> None:
    promised = [other(shares(), name=f"w{number}") for number in range(78)]
    on = t4(8)
    assert verdict(subject(shares(), pods=2), on=on, others=promised).judgement is Judgement.READY
    assert verdict(subject(shares(), pods=3), on=on, others=promised).judgement is Judgement.HELD


# --- Pods that are ending -----------------------------------------------------------------------------------------


def test_only_ending_pods_in_the_way_are_waited_for() -> None:
    ending = using(whole_entry("t4/0"), deleting=True)
    assert verdict(subject(shares()), on=t4(1), pods=[ending]) == Verdict(
        judgement=Judgement.WAIT,
        sentence=(
            "node a: asked for one share of nvidia-t4, but 0 of 1 cards have a free share; card t4/0 is in use "
            "(exclusive); waiting for 1 Pod to end"
        ),
        candidates=("a",),
    )


def test_ending_pods_are_not_waited_for_when_others_stay() -> None:
    pods = [using(slice_entry("t4/0", 30), deleting=True), using(slice_entry("t4/0", 30), name="stays")]
    assert verdict(subject(whole()), on=t4(1), pods=pods).judgement is Judgement.HELD


def test_a_promise_is_not_waited_away() -> None:
    ending = using(whole_entry("t4/0"), deleting=True)
    assert verdict(subject(whole()), on=t4(1), pods=[ending], others=[other(whole())]).judgement is Judgement.HELD


# --- Nodes, flavors and sentences ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seen", "sentence"),
    [
        pytest.param({}, "node a: is gone", id="not seen"),
        pytest.param({"a": NodeSight(name="a", node=None, groups=tuple(t4(1)))}, "node a: is gone", id="deleted"),
        pytest.param(
            {"a": NodeSight(name="a", node=node("a", ready="Unknown"), groups=tuple(t4(1)))}, "node a: is not Ready",
            id="not Ready",
        ),
        pytest.param(
            {"a": NodeSight(name="a", node=node("a", unschedulable=True), groups=tuple(t4(1)))}, "node a: is cordoned",
            id="cordoned",
        ),
        pytest.param(
            {"a": NodeSight(name="a", node=node("a", labels={}), groups=tuple(t4(1)))},
            "node a: no longer has the label acceleratable.feature.gpustack.ai/nvidia-t4=true of its flavor",
            id="without the labels of the flavor",
        ),
    ],
)  # fmt: skip
def test_a_node_that_takes_no_pods(seen: Mapping[str, NodeSight], sentence: str) -> None:
    found = judge(Inputs(workload=subject(whole()), nodes=seen, flavors={"cards": flavor()}))
    assert (found.judgement, found.sentence) == (Judgement.HELD, sentence)


@pytest.mark.parametrize(
    ("flavors", "sentence"),
    [
        pytest.param({}, "flavor 'cards' of the admission does not exist", id="no flavor of that name"),
        pytest.param(
            {"cards": flavor(key="")},
            "flavor cards does not name one sort of card; its node labels need one accelerator key",
            id="a flavor without cards",
        ),
    ],
)
def test_a_flavor_that_is_about_no_cards(flavors: Mapping[str, ResourceFlavor], sentence: str) -> None:
    found = judge(Inputs(workload=subject(whole()), nodes={"a": sight("a", t4(1))}, flavors=flavors))
    assert (found.judgement, found.sentence) == (Judgement.HELD, sentence)


def test_an_admission_without_a_node_cannot_be_judged() -> None:
    unplaced = subject(whole())
    bare = PodSetAssignment(name="main", count=1, flavors={"credits.gpustack.ai/nvidia": "cards"})
    status = WorkloadStatus(admission=Admission(pod_set_assignments=(bare,)))
    workload = msgspec.structs.replace(unplaced, status=status)
    found = judge(Inputs(workload=workload, nodes={}, flavors={"cards": flavor()}))
    assert found.sentence == ("the admission names no node; flavor cards needs a topologyName with the level hostname")


def test_who_asks_for_no_cards_is_ready() -> None:
    assert verdict(subject({"cpu": "1"}), on=[]) == Verdict(judgement=Judgement.READY)


@pytest.mark.parametrize(
    ("pods", "ask", "sentence"),
    [
        pytest.param(
            [using(whole_entry("t4/0"))], whole(2),
            "node a: asked for 2 whole cards of nvidia-t4, but 1 of 2 cards free; card t4/0 is in use (exclusive)",
            id="whole cards",
        ),
        pytest.param(
            [using(whole_entry("t4/1"))], shares(2),
            "node a: asked for one share on each of 2 cards of nvidia-t4, but 1 of 2 cards have a free share; "
            "card t4/1 is in use (exclusive)",
            id="shares",
        ),
        pytest.param(
            [using(slice_entry("t4/0", 50)), using(slice_entry("t4/1", 45), name="q")], slices(60),
            "node a: asked for 1 slice of 60 percent of nvidia-t4, but the freest card, t4/1, has 55 percent free",
            id="a slice",
        ),
        pytest.param(
            [using(whole_entry("t4/0")), using(share_entry("t4/1"), name="q")], slices(60),
            "node a: asked for 1 slice of 60 percent of nvidia-t4, but 0 percent free on every card; "
            "card t4/0 is in use (exclusive)",
            id="a slice where no card is open",
        ),
    ],
)  # fmt: skip
def test_a_sentence_names_node_card_asked_and_free(pods: Sequence[Pod], ask: Ask, sentence: str) -> None:
    assert verdict(subject(ask), on=t4(2), pods=pods).sentence == sentence


def test_a_sentence_names_the_roles_of_several() -> None:
    sets = (asking(whole(), name="driver"), asking(whole(), name="worker"))
    found = verdict(placed("subject", *sets, at={"a": 1}), on=t4(1))
    assert found.sentence.startswith("PodSet driver, worker: node a: asked for 2 whole cards")


# --- Other nodes --------------------------------------------------------------------------------------------------


def pool(**pods: Sequence[Pod]) -> Inputs:
    """Three nodes with a card each, and one with a card of another sort."""
    nodes = {name: sight(name, t4(1), pods.get(name, ())) for name in "abc"}
    nodes["d"] = sight("d", [cards_of("a10g", 1)])
    return Inputs(workload=subject(whole()), nodes=nodes, flavors={"cards": flavor()})


def test_candidates_are_the_nodes_with_such_cards() -> None:
    found = judge(pool(a=[using(whole_entry("t4/0"))]))
    assert (found.judgement, found.candidates) == (Judgement.HELD, ("a", "b", "c"))


def test_where_a_pod_fits_now() -> None:
    busy = [using(whole_entry("t4/0"))]
    assert fitting_nodes(pool(a=busy)) == {"main": ("b", "c")}
    assert fitting_nodes(pool(a=busy, b=busy, c=busy)) == {"main": ()}


def test_the_first_node_that_does_not_fit_is_told() -> None:
    sets: PodSet = asking(whole(), count=2)
    inputs = pool(b=[using(whole_entry("t4/0"))])
    spread = Inputs(workload=placed("subject", sets, at={"a": 1, "b": 1}), nodes=inputs.nodes, flavors=inputs.flavors)
    found = judge(spread)
    assert found.judgement is Judgement.HELD
    assert found.sentence.startswith("node b: ")
