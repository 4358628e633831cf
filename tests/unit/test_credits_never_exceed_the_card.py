"""Units, credits and what requests cost."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack_op.scheduling import credits

CARD = 1_600_000


@pytest.mark.parametrize(
    ("slices", "expected"),
    [(0, False), (1, False), (2, True), (3, False), (8, True), (16, True), (512, True), (1024, False), (-8, False)],
)
def test_a_card_is_cut_into_powers_of_two(slices: int, expected: bool) -> None:
    assert credits.is_slicing(slices) is expected


@pytest.mark.parametrize(("percent", "units"), [(1, 16_000), (50, 800_000), (100, 1_600_000)])
def test_a_percent_is_sixteen_thousand_units(percent: int, units: int) -> None:
    assert credits.percent_units(percent) == units


@pytest.mark.parametrize(
    ("mebibytes", "card", "units"),
    [
        (10240, 81920, 200_000),
        (20480, 81920, 400_000),
        (40960, 81920, 800_000),
        (81920, 81920, 1_600_000),
        (9856, 81920, 192_500),
        (8192, 24576, 533_333),
        (1, 24576, 65),
        (1000, 16384, 97_656),
        (1000, 0, 0),
        (1000, -1, 0),
    ],
)
def test_memory_costs_its_share_of_the_card_rounded_down(mebibytes: int, card: int, units: int) -> None:
    assert credits.memory_units(mebibytes, card) == units


def test_cards_and_shares_have_their_price() -> None:
    assert credits.card_credits(2) == 3_200_000
    assert credits.share_credits(2) == 320_000


@pytest.mark.parametrize(
    ("amount", "cards"),
    [
        (CARD, Fraction(1)),
        (160_000, Fraction(1, 10)),
        (3_125, Fraction(1953, 10**6)),
        (Fraction(3_124_001, 1000), Fraction(1953, 10**6)),
    ],
)
def test_credits_read_as_cards(amount: int | Fraction, cards: Fraction) -> None:
    assert credits.cards_of(amount) == cards


@pytest.mark.parametrize(
    ("cards", "slices", "expected"),
    [
        (Fraction(1), 0, Fraction(1)),
        (Fraction(3, 2), 1, Fraction(1)),
        (Fraction(1), 2, Fraction(2)),
        (Fraction(1, 2), 4, Fraction(2)),
        (Fraction(1, 4), 8, Fraction(2)),
        (Fraction(1, 8), 16, Fraction(2)),
        (Fraction(1), 512, Fraction(512)),
        (Fraction(1), 3, Fraction(1)),
    ],
)
def test_cards_read_as_slices(cards: Fraction, slices: int, expected: Fraction) -> None:
    assert credits.slices_of_cards(cards, slices) == expected


@pytest.mark.parametrize(
    ("amount", "slices", "units"),
    [
        (Fraction(3, 2), 1, 2_400_000),
        (Fraction(1), 2, 800_000),
        (Fraction(1), 4, 400_000),
        (Fraction(1), 8, 200_000),
        (Fraction(1), 16, 100_000),
        (Fraction(1), 512, 3_125),
        (Fraction(7), 5, 7),
    ],
)
def test_slices_and_units_convert_both_ways(amount: Fraction, slices: int, units: int) -> None:
    assert credits.units_of_slices(amount, slices) == units
    assert credits.slices_of_units(Fraction(units), slices) == amount


def test_kueue_turns_requests_into_credits() -> None:
    rules = [rule for rule in credits.transformations() if rule["outputs"].keys() == {"credits.gpustack.ai/nvidia"}]
    assert rules == [
        {
            "input": "nvidia.com/gpu",
            "strategy": "Replace",
            "outputs": {"credits.gpustack.ai/nvidia": "1600000"},
        },
        {
            "input": "nvidia.com/gpu.shared",
            "strategy": "Replace",
            "outputs": {"credits.gpustack.ai/nvidia": "160000"},
        },
        {
            "input": "nvidia.com/gpu.sliced.units",
            "strategy": "Replace",
            "outputs": {"credits.gpustack.ai/nvidia": "1"},
            "multiplyBy": "nvidia.com/gpu.sliced",
        },
        {
            "input": "nvidia.com/gpu.partitioned.units",
            "strategy": "Replace",
            "outputs": {"credits.gpustack.ai/nvidia": "1"},
        },
    ]


def test_twenty_three_requests_fill_a_card_and_no_more() -> None:
    one = credits.memory_units(2000, 46068)
    assert 23 * one <= CARD < 24 * one


@given(st.integers(1, 10**6), st.lists(st.integers(1, 10**6), max_size=20))
def test_what_fits_by_memory_fits_by_units(card: int, requests: list[int]) -> None:
    fitting = [request for request in requests if request <= card // max(1, len(requests))]
    assert sum(credits.memory_units(request, card) for request in fitting) <= CARD
