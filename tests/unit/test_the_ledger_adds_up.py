"""The account of a node's cards, made from the Pods' records."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gpustack_op.api.worker import DeviceGroup, LedgerRow, Placement, ProfileCount
from gpustack_op.scheduling.claims import PodClaim, charged, claim_of, holders, overlaid
from gpustack_op.scheduling.ledger import Ledger, drifted, rebuilt
from gpustack_op.scheduling.manufacturers import Family
from gpustack_op.scheduling.records import ContainerRecord, Record
from gpustack_op.scheduling.strict_ledger import LedgerError, strictly_rebuilt
from tests.builders import (
    CARD,
    H100_PROFILES,
    cards_of,
    claim,
    entry,
    given,
    partition_entry,
    pod,
    share_entry,
    slice_entry,
    whole_entry,
)

A10G = [cards_of("a10g", 3)]
H100 = [cards_of("h100", 1, profiles=H100_PROFILES)]

Told = tuple[int, int, int]
"""Mode, remaining units and slices of one card."""


def told(ledger: Ledger) -> list[Told]:
    return [(row.mode, row.remaining, row.allocated_slices) for row in ledger.rows.values()]


FREE = (0, CARD, 0)


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        pytest.param([], [FREE, FREE, FREE], id="nobody"),
        pytest.param(
            [
                claim("p", given(slice_entry("a10g/0", 10), container="aux") | given(slice_entry("a10g/0", 10))),
                claim("q", given(slice_entry("a10g/1", 10))),
                claim("x", given(whole_entry("a10g/2"))),
            ],
            [(3, 1_280_000, 2), (3, 1_440_000, 1), (1, 0, 0)],
            id="two containers on one card are two slices",
        ),
        pytest.param([claim("p", given(share_entry("a10g/1")))], [FREE, (2, 1_440_000, 0), FREE], id="a share"),
        pytest.param(
            [claim("p", given(slice_entry("a10g/0", 60)), phase="Succeeded")], [FREE, FREE, FREE],
            id="a slice ends with its Pod",
        ),
        pytest.param(
            [claim("p", given(whole_entry("a10g/0"), share_entry("a10g/1")), phase="Failed")], [FREE, FREE, FREE],
            id="a card and a share end with their Pod",
        ),
        pytest.param(
            [claim("p", given(slice_entry("a10g/0", 60)), deleting=True)], [(3, 640_000, 1), FREE, FREE],
            id="a Pod that is ending still has its slice",
        ),
        pytest.param(
            [claim("p", given(slice_entry("a10g/0", 60))), claim("q", given(slice_entry("a10g/0", 60)))],
            [(3, 0, 2), FREE, FREE],
            id="more than there is leaves nothing",
        ),
        pytest.param([claim("p", {}, unreadable="why")], [FREE, FREE, FREE], id="a record that cannot be read"),
    ],
)  # fmt: skip
def test_cards_are_charged(claims: Sequence[PodClaim], expected: list[Told]) -> None:
    assert told(rebuilt(A10G, claims)) == expected


@pytest.mark.parametrize("manufacturer", ["metax", "cambricon"])
def test_a_driver_that_keeps_slices_keeps_them_charged(manufacturer: str) -> None:
    held = given(slice_entry("c500/0", 60, manufacturer=manufacturer))
    ledger = rebuilt([cards_of("c500", 1, manufacturer=manufacturer)], [claim("p", held, phase="Succeeded")])
    assert told(ledger) == [(3, 640_000, 1)]


def test_a_partition_of_a_finished_pod_stays_until_the_pod_is_gone() -> None:
    held = given(partition_entry("h100/0", "3g.40gb", 0, 4, units=780_000))
    row = rebuilt(H100, [claim("p", held, phase="Succeeded")]).rows["h100/0"]
    assert row == LedgerRow(
        id="h100/0",
        mode=4,
        remaining=820_000,
        allocated_profiles=(ProfileCount(name="3g.40gb", count=1),),
        remaining_profiles=(
            ProfileCount(name="1g.10gb", count=3),
            ProfileCount(name="1g.20gb", count=2),
            ProfileCount(name="2g.20gb", count=1),
            ProfileCount(name="3g.40gb", count=1),
        ),
    )


def test_what_occupies_a_place_on_the_card_stays_whatever_its_mode() -> None:
    placed = entry("a10g/0", Family.SLICED, 160_000, placements=(Placement(start=0, length=1),))
    assert told(rebuilt([cards_of("a10g", 1)], [claim("p", given(placed), phase="Failed")])) == [(3, 1_440_000, 1)]


def test_the_older_of_two_pods_that_disagree_is_believed() -> None:
    young = claim("a", given(share_entry("a10g/0"), share_entry("a10g/1")), created="2026-01-02T00:00:00Z")
    old = claim("b", given(whole_entry("a10g/0")), created="2026-01-01T00:00:00Z")
    ledger = rebuilt(A10G, [young, old])
    assert told(ledger) == [(1, 0, 0), (2, 1_440_000, 0), FREE]
    assert ledger.disputed == {"a10g/0"}
    assert [conflict.sentence for conflict in ledger.conflicts] == [
        "Pod default/a, container main: card a10g/0 is recorded as shared, but an older Pod has it as exclusive"
    ]


def test_a_card_that_is_not_there_is_told() -> None:
    ledger = rebuilt(A10G, [claim("p", given(whole_entry("a10g/7"), whole_entry("a10g/0")))])
    assert told(ledger) == [(1, 0, 0), FREE, FREE]
    assert [left.sentence for left in ledger.unknown] == [
        "Pod default/p, container main: card a10g/7 is recorded as exclusive, but the node has no such card"
    ]


def test_a_partition_of_a_card_that_left_that_mode_is_told() -> None:
    ledger = rebuilt(A10G, [claim("p", given(partition_entry("a10g/0", "1g.10gb", 0, 1, units=1)))])
    assert told(ledger) == [FREE, FREE, FREE]
    assert [left.reason for left in ledger.unknown] == ["the card is no longer in a partitioning mode"]


def test_a_card_that_moved_to_another_group_keeps_its_account() -> None:
    held = given(entry("a10g/0", Family.SLICED, 160_000))
    moved = cards_of("a10g", 1)
    renamed = DeviceGroup(id="a10g-24g", manufacturer="nvidia", accelerators=moved.accelerators)
    assert told(rebuilt([renamed], [claim("p", held)])) == [(3, 1_440_000, 1)]


def test_a_sick_card_keeps_its_charge() -> None:
    ledger = rebuilt([cards_of("a10g", 1, sick=[0])], [claim("p", given(whole_entry("a10g/0")))])
    assert told(ledger) == [(1, 0, 0)]


def test_a_claim_says_why_its_record_cannot_be_read() -> None:
    unreadable = claim_of(pod("p", record="{"))
    assert (unreadable.uid, dict(unreadable.record)) == ("uid-of-p", {})
    assert "cannot be read" in unreadable.unreadable
    assert claim_of(pod("p", record=given(whole_entry("t4/0")), deleting=True)) == claim(
        "p", given(whole_entry("t4/0")), deleting=True
    )


# --- Records that are not yet, or no longer, on the Pod -----------------------------------------------------------

ANNOTATED = claim("p", given(slice_entry("a10g/0", 10)) | given(slice_entry("a10g/0", 10), container="aux"))


def held(percent: int) -> ContainerRecord:
    return ContainerRecord((slice_entry("a10g/0", percent),))


@pytest.mark.parametrize(
    ("reservations", "give_backs", "expected"),
    [
        pytest.param({}, {}, {"main": 160_000, "aux": 160_000}, id="the annotation"),
        pytest.param({("uid-of-p", "main"): held(20)}, {}, {"main": 320_000, "aux": 160_000}, id="a reservation first"),
        pytest.param(
            {("uid-of-p", "main"): held(20)}, {("uid-of-p", "main"): held(30)}, {"main": 320_000, "aux": 160_000},
            id="a reservation before a give-back",
        ),
        pytest.param({}, {("uid-of-p", "main"): None}, {"aux": 160_000}, id="given back altogether"),
        pytest.param({("uid-of-q", "main"): held(20)}, {}, {"main": 160_000, "aux": 160_000}, id="of a Pod now gone"),
    ],
)  # fmt: skip
def test_our_record_of_a_container(
    reservations: dict[tuple[str, str], ContainerRecord | None],
    give_backs: dict[tuple[str, str], ContainerRecord | None],
    expected: dict[str, int],
) -> None:
    claims = overlaid([ANNOTATED], reservations, give_backs)
    assert {container: found.allocated for container, found in charged(claims[0])} == expected


def test_holders_by_card() -> None:
    found = holders([ANNOTATED, claim("q", given(whole_entry("a10g/1")))])
    assert {card: set(held) for card, held in found.items()} == {
        "a10g/0": {("uid-of-p", "main"), ("uid-of-p", "aux")},
        "a10g/1": {("uid-of-q", "main")},
    }


# --- Drift, and strictness ----------------------------------------------------------------------------------------


def test_drift_names_the_cards_that_differ() -> None:
    before = rebuilt(A10G, [claim("p", given(whole_entry("a10g/0")))]).groups
    now = rebuilt([cards_of("a10g", 4)], [claim("p", given(whole_entry("a10g/1")))])
    assert drifted(before, now) == ("a10g/0", "a10g/1", "a10g/3")
    assert drifted(now.groups, now) == ()


def test_a_strict_ledger_of_sound_records_is_the_ledger() -> None:
    pods = [pod("p", record=given(slice_entry("a10g/0", 10))), pod("q", record=given(whole_entry("a10g/1"))), pod("r")]
    assert strictly_rebuilt(A10G, pods) == rebuilt(A10G, map(claim_of, pods))


SOUND = given(whole_entry("a10g/0"))


@pytest.mark.parametrize(
    ("groups", "records", "sentence"),
    [
        pytest.param([cards_of("", 1)], [], "empty group id", id="a group without id"),
        pytest.param([*A10G, cards_of("a10g", 1)], [], "group id nvidia/a10g twice", id="a group twice"),
        pytest.param(
            [*A10G, cards_of("a10g", 1, manufacturer="amd")], [], "card id a10g/0 twice", id="a card in two groups"
        ),
        pytest.param(A10G, ["{"], "cannot be read", id="half a record"),
        pytest.param(A10G, ['{"main": null}'], "cannot be read", id="a null container"),
        pytest.param(A10G, [given(whole_entry("a10g/9"))], "card a10g/9 is not on this node", id="an unknown card"),
        pytest.param(
            A10G, [given(slice_entry("a10g/0", 1, manufacturer="amd"))],
            "is recorded in group amd/a10g and is in nvidia/a10g",
            id="another manufacturer",
        ),
        pytest.param([cards_of("t4", 1)], [SOUND], "card a10g/0 is not on this node", id="an unknown group"),
        pytest.param(A10G, [given(slice_entry("a10g/0", 200))], "more than a card has", id="more than a card"),
        pytest.param(
            A10G, [SOUND, given(share_entry("a10g/0"))], "an older Pod has it as exclusive", id="two modes at once"
        ),
    ],
)  # fmt: skip
def test_a_strict_ledger_refuses(groups: Sequence[DeviceGroup], records: Sequence[Record | str], sentence: str) -> None:
    pods = [pod(f"p{number}", record=record) for number, record in enumerate(records)]
    with pytest.raises(LedgerError, match=sentence):
        strictly_rebuilt(groups, pods)


def test_a_strict_ledger_refuses_an_index_that_moved() -> None:
    shifted = entry("a10g/0", Family.SLICED, 1)
    moved = given(type(shifted)(manufacturer="nvidia", group="a10g", card="a10g/0", index=1, mode=Family.SLICED))
    with pytest.raises(LedgerError, match="recorded as number 1 and is number 0"):
        strictly_rebuilt(A10G, [pod("p", record=moved)])
