"""Which partitions are taken down, and which made again, as tables."""

from __future__ import annotations

import pytest

from gpustack_op.agent.partitions.driver import Instance
from gpustack_op.agent.partitions.markers import Marker, Owner
from gpustack_op.agent.partitions.mend import Repairs, repairs
from gpustack_op.agent.partitions.reclaim import NOBODY, Misses, planned
from gpustack_op.agent.partitions.world import Held, World
from gpustack_op.api.worker import Placement

CARD = "GPU-0"


def place(start: int, length: int = 2) -> Placement:
    return Placement(start=start, length=length)


def instance(number: int, start: int, uuid: str = "MIG-a", *, parts: int = 1) -> Instance:
    return Instance(id=number, place=place(start), uuid=uuid, parts=parts)


def marker(pod: str, number: int, start: int, uuid: str = "MIG-a", *, boot: str = "one") -> Marker:
    return Marker(
        pod=pod,
        container="main",
        card=CARD,
        profile="1g.20gb",
        instance=number,
        uuid=uuid,
        start=start,
        length=2,
        boot_id=boot,
    )


def held(pod: str, start: int, uuid: str = "MIG-a", *, card: str = CARD, finished: bool = False) -> Held:
    return Held(Owner(pod, "main"), card, "1g.20gb", place(start), uuid, finished)


def world(*living: str, holding: tuple[Held, ...] = ()) -> World:
    return World(frozenset(living), holding)


Outcome = tuple[list[tuple[int | None, str | None]], dict[str, int]]
"""What goes, as number of the instance and Pod of the marker, and the misses afterwards."""


def outcome(instances: list[Instance], markers: list[Marker], seen: World, before: Misses) -> Outcome:
    plan = planned(CARD, instances, markers, seen, before)
    gone = [(one.instance.id if one.instance else None, one.marker.pod if one.marker else None) for one in plan.gone]
    return gone, dict(plan.misses)


@pytest.mark.parametrize(
    ("markers", "seen", "before", "expected"),
    [
        pytest.param([marker("p", 1, 0)], world("p"), {"p": 2}, ([], {}), id="its Pod lives"),
        pytest.param([marker("p", 1, 0)], world(), {}, ([], {"p": 1}), id="missed once"),
        pytest.param([marker("p", 1, 0)], world(), {"p": 1}, ([], {"p": 2}), id="missed twice"),
        pytest.param([marker("p", 1, 0)], world(), {"p": 2}, ([(1, "p")], {"p": 3}), id="missed three times"),
        pytest.param([marker("p", 1, 0)], world(), {"p": 7}, ([(1, "p")], {"p": 8}), id="still in use"),
        pytest.param(
            [marker("p", 1, 0, "MIG-old")], world(), {"p": 2}, ([(None, "p")], {"p": 3}), id="its number is another's"
        ),
        pytest.param(
            [marker("p", 9, 0)], world(), {"p": 2}, ([(None, "p")], {"p": 3, NOBODY: 1}), id="it is gone already"
        ),
        pytest.param(
            [marker("p", 1, 0)],
            world("q", holding=(held("q", 0),)),
            {"p": 2},
            ([], {"p": 3}),
            id="a living Pod claims its place",
        ),
        pytest.param([], world(), {}, ([], {NOBODY: 1}), id="nobody's, missed once"),
        pytest.param([], world(), {NOBODY: 2}, ([(1, None)], {NOBODY: 3}), id="nobody's, missed three times"),
        pytest.param([], world("q", holding=(held("q", 6),)), {NOBODY: 2}, ([], {}), id="nobody's on a card in use"),
        pytest.param([marker("q", 5, 6)], world("q"), {NOBODY: 2}, ([], {}), id="nobody's beside a living Pod's"),
        pytest.param(
            [],
            world("q", holding=(held("q", 0, card="GPU-1"),)),
            {NOBODY: 2},
            ([(1, None)], {NOBODY: 3}),
            id="another card's claim says nothing",
        ),
    ],
)
def test_a_partition_goes_after_three_passes_without_an_owner(
    markers: list[Marker], seen: World, before: Misses, expected: Outcome
) -> None:
    assert outcome([instance(1, 0)], markers, seen, before) == expected


def test_what_was_divided_further_by_hand_stays() -> None:
    assert outcome([instance(1, 0, parts=2)], [], world(), {NOBODY: 9}) == ([], {})


def test_a_sibling_that_lives_keeps_only_its_own() -> None:
    instances = [instance(1, 0), instance(2, 2, "MIG-b")]
    markers = [marker("p", 1, 0), marker("q", 2, 2, "MIG-b")]
    assert outcome(instances, markers, world("q"), {"p": 2}) == ([(1, "p")], {"p": 3})


# --- Made again ---------------------------------------------------------------------------------------------------


def told(found: Repairs) -> tuple[list[str], list[tuple[str, str]]]:
    return [one.owner.pod for one in found.again], [(one.held.owner.pod, one.why) for one in found.lost]


@pytest.mark.parametrize(
    ("instances", "markers", "boot", "expected"),
    [
        pytest.param([instance(1, 0)], [], "two", ([], []), id="it is there"),
        pytest.param([], [marker("p", 1, 0)], "two", (["p"], []), id="the machine has rebooted"),
        pytest.param([], [], "two", (["p"], []), id="nobody knows when it was made"),
        pytest.param(
            [], [marker("p", 1, 0)], "one", ([], [("p", "it was taken down while the machine ran")]), id="no reboot"
        ),
        pytest.param(
            [], [marker("p", 1, 0)], "", ([], [("p", "it was taken down while the machine ran")]), id="unknown boot"
        ),
        pytest.param(
            [instance(1, 0, "MIG-new")],
            [marker("p", 1, 0)],
            "two",
            ([], [("p", "its place has partition MIG-new now")]),
            id="another id",
        ),
        pytest.param(
            [Instance(id=3, place=place(0, 4), uuid="MIG-b")],
            [marker("p", 1, 0)],
            "two",
            ([], [("p", "its place is taken by other partitions")]),
            id="its place is taken",
        ),
    ],
)
def test_a_missing_partition_is_made_again_after_a_reboot_only(
    instances: list[Instance], markers: list[Marker], boot: str, expected: tuple[list[str], list[tuple[str, str]]]
) -> None:
    assert told(repairs([held("p", 0)], instances, markers, boot)) == expected


def test_a_finished_pod_needs_no_partition_any_more() -> None:
    assert told(repairs([held("p", 0, finished=True)], [], [], "two")) == ([], [])
