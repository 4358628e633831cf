"""Random nodes and Pods, told by the ledger and by a second implementation that knows nothing of it."""

from __future__ import annotations

import random
from typing import Any

import msgspec
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gpustack_op.agent.ledger import ledger_json
from gpustack_op.api.core import Pod
from gpustack_op.api.worker import DeviceGroup, LedgerGroup, LedgerRow
from gpustack_op.scheduling.card_budget import CardBudget, Piece, card_budget
from gpustack_op.scheduling.claims import claim_of
from gpustack_op.scheduling.device_groups import groups_json
from gpustack_op.scheduling.landing import lands_in_any_order
from gpustack_op.scheduling.ledger import Ledger, drifted, rebuilt
from gpustack_op.scheduling.manufacturers import Family
from gpustack_op.scheduling.records import ContainerRecord, Entry
from tests.builders import H100_PROFILES, cards_of, entry, partition_entry, pod, share_entry, slice_entry, whole_entry
from tests.model.naive_ledger import NaiveCard, naive_ledger, naive_places, over_granted

NODE = [
    cards_of("t4", 3),
    cards_of("h100", 2, profiles=H100_PROFILES, first=3),
    cards_of("c500", 2, manufacturer="metax"),
]
CARDS = [card for group in NODE for card in group.accelerators or ()]
WHOLE = 1_600_000


def entries() -> st.SearchStrategy[Entry]:
    """Anything an agent may have written, also what contradicts other Pods, and cards that are gone."""
    cards = st.sampled_from(["t4/0", "t4/1", "t4/2", "h100/3", "h100/4", "t4/9"])
    places = st.sampled_from([(p.name, o.start, o.length) for p in H100_PROFILES for o in p.placements or ()])
    return st.one_of(
        st.builds(whole_entry, cards),
        st.builds(share_entry, cards),
        st.builds(slice_entry, cards, st.integers(0, 100)),
        st.builds(
            lambda number, percent: slice_entry(f"c500/{number}", percent, manufacturer="metax"),
            st.integers(0, 1),
            st.integers(1, 40),
        ),
        st.builds(
            lambda card, place, units: partition_entry(card, place[0], place[1], place[2], units),
            cards,
            places,
            st.integers(0, WHOLE),
        ),
        st.builds(
            lambda card, units: entry(card, Family.PARTITIONED, units, profile="1g.10gb"), cards, st.integers(0, 9)
        ),
    )


def pods() -> st.SearchStrategy[list[Pod]]:
    """The oldest first."""
    records = st.dictionaries(
        st.sampled_from(["main", "aux", "init"]),
        st.lists(entries(), max_size=3).map(lambda held: ContainerRecord(tuple(held))),
        max_size=3,
    )
    texts = st.one_of(records, st.none(), st.just("{"))
    phases = st.sampled_from(["Running", "Pending", "", "Succeeded", "Failed"])
    return st.lists(st.tuples(texts, phases, st.booleans()), max_size=8).map(
        lambda drawn: [
            pod(f"p{number}", record=record, phase=phase, deleting=deleting, created=f"2026-01-0{number + 1}T00:00:00Z")
            for number, (record, phase, deleting) in enumerate(drawn)
        ]
    )


def ledger_of(members: list[Pod], groups: list[DeviceGroup] = NODE) -> Ledger:
    return rebuilt(groups, map(claim_of, members))


def naive_of(members: list[Pod], groups: list[DeviceGroup] = NODE) -> dict[str, NaiveCard]:
    return naive_ledger(groups_json(groups), [_json(member) for member in members])


def _json(member: Pod) -> dict[str, Any]:
    stated: dict[str, Any] = msgspec.to_builtins(member)
    return stated


def by_profile(row: LedgerRow) -> tuple[dict[str, int], dict[str, int]]:
    allocated = {told.name: told.count for told in row.allocated_profiles or ()}
    return allocated, {told.name: told.count for told in row.remaining_profiles or ()}


@settings(deadline=None)
@given(pods())
def test_both_tell_the_same(members: list[Pod]) -> None:
    ledger, naive = ledger_of(members), naive_of(members)
    assert ledger.rows.keys() == naive.keys()
    for card, told in zip(groups_json(NODE), NODE, strict=True):
        for stated, typed in zip(card["accelerators"], told.accelerators or (), strict=True):
            row, other = ledger.rows[typed.id], naive[typed.id]
            slices = len(other.owners) if other.how == 3 else 0
            assert (row.mode, row.remaining, row.allocated_slices) == (other.how, other.left(), slices)
            names = [name for name, _ in other.partitions]
            assert by_profile(row) == ({name: names.count(name) for name in names}, naive_places(stated, other))
            intervals = ledger.occupied.get(typed.id, ())
            assert sorted(n for p in intervals for n in range(p.start, p.start + p.length)) == other.covered()


@settings(deadline=None)
@given(pods(), st.randoms(use_true_random=False))
def test_the_order_of_the_pods_does_not_matter(members: list[Pod], chance: random.Random) -> None:
    shuffled = list(members)
    chance.shuffle(shuffled)
    assert ledger_of(shuffled) == ledger_of(members)


@settings(deadline=None)
@given(pods())
def test_computing_it_again_changes_nothing(members: list[Pod]) -> None:
    ledger = ledger_of(members)
    stored = msgspec.convert(ledger_json(ledger.groups), tuple[LedgerGroup, ...])
    assert drifted(stored, ledger_of(members)) == ()


@settings(deadline=None)
@given(pods())
def test_what_remains_and_what_is_charged_add_up(members: list[Pod]) -> None:
    naive = naive_of(members)
    assume(not over_granted(naive))
    charged = sum(units for card in naive.values() for _, _, units in card.owners)
    assert sum(row.remaining for row in ledger_of(members).rows.values()) + charged == len(CARDS) * WHOLE


@settings(deadline=None)
@given(pods())
def test_no_row_leaves_its_bounds(members: list[Pod]) -> None:
    for row in ledger_of(members).rows.values():
        assert 0 <= row.remaining <= WHOLE
        assert row.mode or row.remaining == WHOLE


# --- Giving out, by the rule that says which card is taken --------------------------------------------------------

PIECES = st.one_of(
    st.builds(Piece, family=st.just(Family.EXCLUSIVE), manufacturer=st.just("nvidia"), key=st.just("nvidia-t4")),
    st.builds(
        Piece, family=st.just(Family.SHARED), manufacturer=st.just("nvidia"), key=st.just("nvidia-t4"),
        cards=st.integers(1, 3),
    ),
    st.builds(
        Piece, family=st.just(Family.SLICED), manufacturer=st.just("nvidia"), key=st.just("nvidia-t4"),
        units=st.integers(1, 100).map(lambda percent: percent * 16_000),
    ),
    st.builds(
        Piece, family=st.just(Family.PARTITIONED), manufacturer=st.just("nvidia"), key=st.just("nvidia-h100"),
        profile=st.sampled_from([profile.name for profile in H100_PROFILES]), units=st.just(1),
    ),
)  # fmt: skip


def served(budget: CardBudget, pieces: list[Piece]) -> tuple[list[Pod], list[Piece]]:
    """A Pod for each piece that finds its cards, one after the other, and the pieces that find none."""
    given_out: list[Pod] = []
    refused: list[Piece] = []
    now = budget
    for number, piece in enumerate(pieces):
        following = now.after(piece)
        if following is None:
            refused.append(piece)
            continue
        given_out.append(pod(f"p{number}", record={"main": ContainerRecord(_taken(now, following, piece))}))
        now = following
    return given_out, refused


def _taken(before: CardBudget, after: CardBudget, piece: Piece) -> tuple[Entry, ...]:
    return tuple(
        entry(
            card.id,
            piece.family,
            was.remaining - now.remaining,
            profile=piece.profile,
            placements=tuple(place for place in now.occupied if place not in was.occupied),
        )
        for card, was, now in zip(before.cards, before.uses, after.uses, strict=True)
        if was != now
    )


EMPTY = card_budget(NODE, ledger_of([]))


@settings(deadline=None)
@given(st.lists(PIECES, max_size=30))
def test_no_card_is_given_beyond_its_capacity(pieces: list[Piece]) -> None:
    members, _ = served(EMPTY, pieces)
    assert over_granted(naive_of(members)) == []


@settings(deadline=None)
@given(st.lists(PIECES, max_size=30))
def test_a_budget_after_giving_is_the_budget_of_the_new_ledger(pieces: list[Piece]) -> None:
    members, _ = served(EMPTY, pieces)
    after, _ = EMPTY.after_all((piece, 1) for piece in pieces)
    assert card_budget(NODE, ledger_of(members)) == after


@settings(deadline=None)
@given(st.lists(PIECES, max_size=3), st.lists(PIECES, max_size=6), st.randoms(use_true_random=False))
def test_what_lands_in_any_order_lands(held: list[Piece], coming: list[Piece], chance: random.Random) -> None:
    budget, _ = EMPTY.after_all((piece, 1) for piece in held)
    assume(lands_in_any_order(budget, [(piece, 1) for piece in coming]))
    for _ in range(10):
        chance.shuffle(coming)
        assert served(budget, coming)[1] == []
