"""Which of the tokens on offer are taken."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gpustack_op.agent.plugin.health import Standing
from gpustack_op.agent.plugin.preferred import hint, wished_cards
from gpustack_op.api.core import Pod
from gpustack_op.scheduling.card_budget import Piece
from gpustack_op.scheduling.claims import PodClaim
from gpustack_op.scheduling.ledger import rebuilt
from gpustack_op.scheduling.manufacturers import Family
from tests.builders import PERCENT, cards_of, claim, given, metadata, share_entry, slice_entry

A, B = "a:a/0:0000", "a:a/1:0000"


def standing(*claims: PodClaim, cards: int = 2) -> Standing:
    groups = [cards_of("a", cards)]
    return Standing(groups=groups, claims=claims, ledger=rebuilt(groups, claims))


def taken(state: Standing, family: Family, available: Sequence[str], size: int = 1, **facts: object) -> list[str]:
    piece = Piece(family=family, manufacturer="nvidia", units=50 * PERCENT)
    return hint(state, piece, available, facts.pop("must", ()), size, **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("claims", "first"),
    [
        pytest.param([], A, id="the first of equals"),
        pytest.param([claim("p", given(slice_entry("a/1", 45)))], B, id="the fullest that has room"),
        pytest.param([claim("p", given(slice_entry("a/0", 60)))], B, id="never one without room"),
    ],
)
def test_a_slice_is_packed(claims: list[PodClaim], first: str) -> None:
    assert taken(standing(*claims), Family.SLICED, [B, A]) == [first]


def test_shares_come_from_different_cards() -> None:
    tokens = [f"a:a/{card}:{index:04d}" for card in (0, 1) for index in range(0, 1_600_000, 160_000)]
    assert taken(standing(), Family.SHARED, tokens, 2) == [A, B]


def test_a_share_goes_where_others_are() -> None:
    assert taken(standing(claim("p", given(share_entry("a/1")))), Family.SHARED, [A, B]) == [B]


def test_what_must_be_taken_is() -> None:
    held = claim("p", given(slice_entry("a/1", 100)))
    assert taken(standing(held), Family.SLICED, [A, B], 2, must=[B]) == [B, A]


def test_too_few_cards_are_no_hint() -> None:
    assert taken(standing(), Family.SHARED, [A, "a:a/0:160000"], 2) == []


def test_what_is_none_of_ours_is_no_hint() -> None:
    assert taken(standing(), Family.SHARED, ["what"]) == []


def test_a_wish_goes_first() -> None:
    assert taken(standing(), Family.EXCLUSIVE, [A, B], wished={"a/1"}) == [B]


@pytest.mark.parametrize(
    ("annotations", "wished"),
    [
        ({"device.gpustack.ai/accelerator.preferred-id": "a/1, a/7"}, {"a/1"}),
        ({"device.gpustack.ai/accelerator.preferred-index": "0,x"}, {"a/0"}),
        ({"device.gpustack.ai/accelerator.preferred-id": "GPU-elsewhere"}, set()),
        ({}, set()),
    ],
    ids=["by id", "by number", "no card here", "no wish"],
)
def test_wishes_are_read(annotations: dict[str, str], wished: set[str]) -> None:
    wishing = Pod(metadata=metadata("p", annotations=annotations))
    assert wished_cards(wishing, standing()) == wished
