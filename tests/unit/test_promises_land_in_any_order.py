"""Whether pieces find their cards in every order; the node has T4 cards without anything on them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gpustack_op.scheduling.card_budget import CardBudget, Piece, card_budget
from gpustack_op.scheduling.landing import lands_in_any_order
from gpustack_op.scheduling.ledger import rebuilt
from gpustack_op.scheduling.manufacturers import Family
from tests.builders import H100_PROFILES, cards_of, claim, given, share_entry, slice_entry

T4 = "nvidia-t4"


def sliced(percent: int, key: str = T4) -> Piece:
    return Piece(family=Family.SLICED, manufacturer="nvidia", key=key, units=percent * 16_000)


def share(cards: int = 1) -> Piece:
    return Piece(family=Family.SHARED, manufacturer="nvidia", key=T4, cards=cards)


WHOLE = Piece(family=Family.EXCLUSIVE, manufacturer="nvidia", key=T4)


def budget(cards: int, *, slices: int = 128) -> CardBudget:
    groups = [cards_of("t4", cards, slices=slices)]
    return card_budget(groups, rebuilt(groups, []))


@pytest.mark.parametrize(
    ("cards", "pieces", "lands"),
    [
        pytest.param(0, [], True, id="nothing needs nothing"),
        pytest.param(2, [(WHOLE, 2)], True, id="as many cards as there are"),
        pytest.param(2, [(WHOLE, 3)], False, id="one card too many"),
        pytest.param(2, [(sliced(60), 2)], True, id="two large slices on two cards"),
        pytest.param(2, [(sliced(60), 3)], False, id="three large slices, less than two cards in sum"),
        pytest.param(1, [(sliced(10), 10)], True, id="ten tenths of one card"),
        pytest.param(1, [(sliced(60), 1), (sliced(40), 1)], True, id="two that fill a card"),
        pytest.param(2, [(sliced(60), 2), (sliced(40), 2)], False, id="the small ones first spoil it"),
        pytest.param(3, [(sliced(60), 2), (sliced(40), 2)], True, id="with a card to spare"),
        pytest.param(1, [(share(), 10)], True, id="ten shares of one card"),
        pytest.param(1, [(share(), 11)], False, id="eleven shares of one card"),
        pytest.param(3, [(share(), 10), (WHOLE, 2)], True, id="shares keep to one card"),
        pytest.param(3, [(share(2), 1), (WHOLE, 2)], False, id="shares on two cards leave one"),
        pytest.param(4, [(share(2), 5), (WHOLE, 2)], True, id="shares on two cards, again and again"),
        pytest.param(2, [(share(), 1), (sliced(10), 1)], True, id="a share and a slice on a card each"),
        pytest.param(1, [(share(), 1), (sliced(10), 1)], False, id="a share and a slice on one card"),
        pytest.param(3, [(sliced(10), 3), (WHOLE, 2)], True, id="slices keep to one card"),
    ],
)
def test_on_free_cards(cards: int, pieces: Sequence[tuple[Piece, int]], lands: bool) -> None:
    assert lands_in_any_order(budget(cards), pieces) is lands


def test_slots_are_counted() -> None:
    assert lands_in_any_order(budget(2, slices=2), [(sliced(1), 4)])
    assert not lands_in_any_order(budget(2, slices=2), [(sliced(1), 5)])


def test_what_is_too_long_to_look_at_is_not_promised() -> None:
    pieces = [(sliced(percent), 1) for percent in (34, 35, 36, 37)]
    assert lands_in_any_order(budget(2), pieces)
    assert not lands_in_any_order(budget(2), pieces, limit=3)


def test_pieces_of_the_whole_manufacturer_get_in_the_way_of_all() -> None:
    groups = [cards_of("t4", 1), cards_of("a10g", 1)]
    both = card_budget(groups, rebuilt(groups, []))
    anywhere = sliced(60, key="")
    assert lands_in_any_order(both, [(anywhere, 1), (sliced(40), 1)])
    assert not lands_in_any_order(both, [(anywhere, 1), (sliced(60), 1)])


def test_partitions_and_slices_of_a_node_do_not_meet() -> None:
    groups = [cards_of("t4", 1), cards_of("h100", 1, profiles=H100_PROFILES)]
    both = card_budget(groups, rebuilt(groups, []))
    half = Piece(family=Family.PARTITIONED, manufacturer="nvidia", key="nvidia-h100", profile="3g.40gb")
    assert lands_in_any_order(both, [(half, 2), (sliced(100), 1)])
    assert not lands_in_any_order(both, [(half, 3), (sliced(100), 1)])


# --- Which card a piece gets --------------------------------------------------------------------------------------

USED = [
    claim("a", given(slice_entry("t4/1", 30))),
    claim("b", given(slice_entry("t4/2", 50))),
    claim("c", given(share_entry("t4/3"))),
    claim("d", given(share_entry("t4/4")) | given(share_entry("t4/4"), container="c1")),
]


@pytest.mark.parametrize(
    ("piece", "cards"),
    [
        pytest.param(WHOLE, ["t4/0"], id="the first free card"),
        pytest.param(sliced(40), ["t4/2"], id="the fullest card that takes the slice"),
        pytest.param(sliced(60), ["t4/1"], id="the next"),
        pytest.param(sliced(80), ["t4/0"], id="a free card when no other takes it"),
        pytest.param(share(), ["t4/3"], id="the shared card with most shares"),
        pytest.param(share(3), ["t4/3", "t4/4", "t4/0"], id="shared cards before free ones"),
        pytest.param(share(5), None, id="more cards than are open to shares"),
        pytest.param(share(0), None, id="no card"),
    ],
)
def test_the_card_that_is_taken(piece: Piece, cards: list[str] | None) -> None:
    groups = [cards_of("t4", 6)]
    chosen = card_budget(groups, rebuilt(groups, USED)).choose(piece)
    assert (None if chosen is None else [card for card, _ in chosen]) == cards


def test_all_that_fits_is_taken_in_turn() -> None:
    left, landed = budget(2).after_all([(WHOLE, 3), (share(), 1)])
    assert landed == [(WHOLE, 2), (share(), 0)]
    assert [use.remaining for use in left.uses] == [0, 0]
