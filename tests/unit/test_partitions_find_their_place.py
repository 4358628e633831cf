"""Where a hardware partition goes on a card of eight memory slices, and what is then left."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpustack_op.api.worker import PhysicalProfile, Placement
from gpustack_op.scheduling.placements import (
    PartitionCard,
    choose_places,
    choose_start,
    free_starts,
    overlap,
    profile_named,
    published,
    remaining_profiles,
)
from tests.builders import H100_PROFILES, profile

NAMED = {one.name: one for one in H100_PROFILES}
EMPTY = {"1g.10gb": 7, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2, "4g.40gb": 1, "7g.80gb": 1}
PAIRS = profile("pairs", 9856, 1, 2, (0, 2, 4, 6))


def at(*intervals: tuple[int, int]) -> list[Placement]:
    """Half-open intervals."""
    return [Placement(start=start, length=end - start) for start, end in intervals]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((0, 4), (4, 8), False),
        ((0, 4), (3, 4), True),
        ((2, 3), (0, 8), True),
        ((0, 8), (2, 3), True),
        ((5, 6), (0, 5), False),
    ],
)
def test_intervals_overlap(one: tuple[int, int], other: tuple[int, int], expected: bool) -> None:
    assert overlap(at(one)[0], at(other)[0]) is expected


@pytest.mark.parametrize(
    ("occupied", "left"),
    [
        pytest.param([], EMPTY, id="an empty card"),
        pytest.param(
            [(0, 4)], {"1g.10gb": 3, "1g.20gb": 2, "2g.20gb": 1, "3g.40gb": 1}, id="one half taken: 4g and 7g are gone"
        ),
        pytest.param([(0, 8)], {}, id="a full card"),
        pytest.param([(6, 7)], EMPTY | {"1g.10gb": 6, "1g.20gb": 3, "3g.40gb": 1}, id="the last slice taken"),
    ],
)
def test_what_is_left(occupied: Sequence[tuple[int, int]], left: dict[str, int]) -> None:
    expected = {name: count for name, count in left.items() if name != "7g.80gb" or not occupied}
    assert remaining_profiles(H100_PROFILES, at(*occupied)) == expected


def test_a_profile_without_listed_places_is_left_out() -> None:
    assert remaining_profiles([PhysicalProfile(name="1g", count=7)], []) == {}


@pytest.mark.parametrize(
    ("occupied", "start"),
    [
        pytest.param([], 0, id="empty"),
        pytest.param([(0, 2)], 2, id="the first taken"),
        pytest.param([(0, 4)], 4, id="the first two taken"),
        pytest.param([(0, 8)], None, id="all taken"),
        pytest.param([(4, 6), (0, 2)], 2, id="taken in no order"),
    ],
)
def test_alone_a_profile_fills_up_from_the_front(occupied: Sequence[tuple[int, int]], start: int | None) -> None:
    chosen = choose_start(PAIRS, at(*occupied), [PAIRS])
    assert (chosen.start if chosen else None) == start


@pytest.mark.parametrize(
    ("name", "occupied", "start"),
    [
        pytest.param("1g.10gb", [], 6, id="a small one leaves room for 4g at the front"),
        pytest.param("1g.10gb", [(6, 7)], 4, id="a second one stays in the same half"),
        pytest.param("1g.20gb", [], 6, id="a pair at the end leaves most"),
        pytest.param("2g.20gb", [], 4, id="its last place leaves 4g"),
        pytest.param("3g.40gb", [], 4, id="a half leaves the half where 4g can be"),
        pytest.param("3g.40gb", [(6, 7)], 0, id="a half where there is one"),
        pytest.param("4g.40gb", [], 0, id="only one place"),
        pytest.param("4g.40gb", [(0, 1)], None, id="its only place taken"),
        pytest.param("7g.80gb", [(6, 7)], None, id="never beside another"),
        pytest.param("1g.10gb", [(0, 4)], 6, id="the other half taken: the end leaves a pair"),
    ],
)
def test_a_place_keeps_the_largest_profile_possible(
    name: str, occupied: Sequence[tuple[int, int]], start: int | None
) -> None:
    chosen = choose_start(NAMED[name], at(*occupied), H100_PROFILES)
    assert (chosen.start if chosen else None) == start


def card(name: str, *occupied: tuple[int, int]) -> PartitionCard:
    return PartitionCard(name, [PAIRS], at(*occupied))


@pytest.mark.parametrize(
    ("cards", "count", "chosen"),
    [
        pytest.param([card("a", (0, 2)), card("b")], 1, [("a", 2)], id="the fuller card"),
        pytest.param([card("a"), card("b", (0, 2))], 1, [("b", 2)], id="the fuller card, whatever the order"),
        pytest.param([card("a", (0, 8)), card("b")], 1, [("b", 0)], id="a full card is passed over"),
        pytest.param([card("a"), card("b")], 1, [("a", 0)], id="the first of equals"),
        pytest.param([card("a"), card("b")], 2, [("a", 0), ("b", 0)], id="two, on two cards"),
        pytest.param([card("a", (0, 8)), card("b")], 2, None, id="two, with one card that has room"),
    ],
)
def test_cards_are_filled_one_after_another(
    cards: Sequence[PartitionCard], count: int, chosen: list[tuple[str, int]] | None
) -> None:
    found = choose_places("pairs", cards, count)
    assert (None if found is None else [(card.id, place.start) for card, place in found]) == chosen


def test_a_profile_nobody_offers_has_no_place() -> None:
    assert choose_places("7g", [card("a")]) is None


def test_profiles_are_found_by_the_name_in_their_resource() -> None:
    media = PhysicalProfile(name="1g.10gb+me")
    assert published("1g.10gb+me") == "1g.10gb.me"
    assert profile_named("1g.10gb.me", [*H100_PROFILES, media]) is media
    assert profile_named("1g.10gb", [media]) is None


@settings(deadline=None)
@given(st.lists(st.sampled_from(sorted(NAMED)), max_size=12))
def test_places_are_legal_and_never_overlap(names: list[str]) -> None:
    occupied: list[Placement] = []
    for name in names:
        chosen = choose_start(NAMED[name], occupied, H100_PROFILES)
        assert (chosen is None) == (free_starts(NAMED[name], occupied) == [])
        occupied += [chosen] if chosen else []
    slices = [number for place in occupied for number in range(place.start, place.start + place.length)]
    assert len(slices) == len(set(slices))
    assert set(slices) <= set(range(8))
