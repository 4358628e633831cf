"""What Allocate gives, whom, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from gpustack_op.agent.plugin.refusal import Code, RefusalError
from gpustack_op.api.worker import DeviceGroup
from gpustack_op.scheduling.manufacturers import Family
from gpustack_op.scheduling.records import Record
from tests.builders import cards_of, given, pod, share_entry, slice_entry, whole_entry
from tests.runtime.plugin_stand import RESOURCES, Stand, ids, shares, slices, whole

WAITS: dict[str, Any] = {"phase": "Pending"}
X, Y = "x/0", "x/1"


@pytest.fixture
async def stand() -> Stand:
    return Stand(cards_of("x", 2))


def node(*, slots: int = 128, sick: tuple[int, ...] = (), group: DeviceGroup | None = None) -> Stand:
    return Stand(group or cards_of("x", 2, slices=slots, sick=sick))


def slice_of(percent: int, card: str = X, *, container: str = "main") -> Record:
    return given(slice_entry(card, percent), container=container, ids=ids(card, index=percent))


async def refused(stand: Stand, name: str, family: Family, tokens: list[str]) -> RefusalError:
    with pytest.raises(RefusalError) as caught:
        await stand.admit(name, family, tokens)
    return caught.value


# --- Given and recorded -----------------------------------------------------------------------------------------------


async def test_a_whole_card_is_recorded_and_injected(stand: Stand) -> None:
    stand.add(pod("p", whole(), **WAITS))
    injected = await stand.admit("p", Family.EXCLUSIVE, ids(X))
    assert injected.variables == {"CARDS": X}
    assert stand.record("p") == given(whole_entry(X), ids=ids(X))
    assert stand.row(X).mode == Family.EXCLUSIVE
    assert (
        stand.metrics.value("gpustack_agent_allocations_total", manufacturer="nvidia", mode="exclusive", result="ok")
        == 1
    )


async def test_shares_of_two_cards_are_two_tenants(stand: Stand) -> None:
    stand.add(pod("p", shares(2), **WAITS))
    await stand.admit("p", Family.SHARED, ids(Y, X))
    assert stand.record("p")["main"].entries == (share_entry(X), share_entry(Y))


async def test_a_slice_is_charged_by_its_memory(stand: Stand) -> None:
    stand.add(pod("p", slices(20), **WAITS))
    await stand.admit("p", Family.SLICED, ids(X))
    assert stand.percent(X) == 20


async def test_a_second_container_keeps_the_record_of_the_first(stand: Stand) -> None:
    stand.add(pod("p", slices(20), slices(30, 2), **WAITS))
    await stand.admit("p", Family.SLICED, ids(X))
    stand.cache.lag()
    await stand.admit("p", Family.SLICED, ids(X, Y, index=1), container="c1")
    assert sorted(stand.record("p")) == ["c1", "main"]


async def test_a_tenants_own_record_is_overwritten_by_what_it_is_given(stand: Stand) -> None:
    forged = given(whole_entry(Y), ids=ids(Y))
    stand.add(pod("p", whole(), record=forged, **WAITS))
    await stand.admit("p", Family.EXCLUSIVE, ids(X))
    assert stand.record("p") == given(whole_entry(X), ids=ids(X))
    assert stand.row(Y).mode == Family.NONE


# --- Refused ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["a:b", ":b:0", "x:x/0:y", "x:x/0:0:0"])
async def test_an_id_that_cannot_be_read_is_named(stand: Stand, text: str) -> None:
    stand.add(pod("p", whole(), **WAITS))
    error = await refused(stand, "p", Family.EXCLUSIVE, [text])
    assert (error.code, text in error.sentence) == (Code.INVALID_ARGUMENT, True)


async def test_an_id_of_no_card_of_ours_is_named(stand: Stand) -> None:
    stand.add(pod("p", whole(), **WAITS))
    error = await refused(stand, "p", Family.EXCLUSIVE, ids("x/7"))
    assert error.code is Code.INVALID_ARGUMENT
    assert error.sentence == 'device id "x:x/7:0000" names no nvidia card of this node'


async def test_nobody_who_waits_is_an_internal_error(stand: Stand) -> None:
    error = await refused(stand, "p", Family.EXCLUSIVE, ids(X))
    assert error.code is Code.INTERNAL
    assert error.sentence == "no Pod of this node waits for 1 of nvidia.com/gpu"


async def test_a_node_that_is_not_known_yet_gives_nothing(stand: Stand) -> None:
    stand.groups = None
    assert (await refused(stand, "p", Family.EXCLUSIVE, ids(X))).code is Code.INTERNAL


async def test_a_kubelet_that_does_not_answer_is_no_reason_to_guess(stand: Stand) -> None:
    stand.add(pod("p", whole(), **WAITS))
    stand.kubelet.is_away = True
    error = await refused(stand, "p", Family.EXCLUSIVE, ids(X))
    assert (error.code, stand.kubelet.calls) == (Code.FAILED_PRECONDITION, 2)


@pytest.mark.parametrize(
    ("held", "family", "asked", "sentence"),
    [
        pytest.param(
            given(slice_entry(X, 10), ids=ids(X)), Family.EXCLUSIVE, whole(),
            "card x/0 is held as sliced and was asked for as exclusive", id="sliced, then whole",
        ),
        pytest.param(
            given(whole_entry(X), ids=ids(X)), Family.SHARED, shares(),
            "card x/0 is held as exclusive and was asked for as shared", id="whole, then shared",
        ),
        pytest.param(
            given(whole_entry(X), ids=ids(X)), Family.EXCLUSIVE, whole(),
            "card x/0 is held as a whole by another container", id="whole, then whole",
        ),
    ],
)  # fmt: skip
async def test_a_card_is_given_in_one_way(
    stand: Stand, held: Record, family: Family, asked: dict[str, str], sentence: str
) -> None:
    stand.add(pod("other", record=held), pod("p", asked, **WAITS))
    error = await refused(stand, "p", family, ids(X))
    assert (error.code, error.sentence) == (Code.FAILED_PRECONDITION, sentence)
    assert stand.annotation("p") is None


async def test_a_card_has_ten_tenants_and_no_more(stand: Stand) -> None:
    tenants = [pod(f"t{number}", record=given(share_entry(X), ids=ids(X, index=number))) for number in range(10)]
    stand.add(*tenants, pod("p", shares(), **WAITS))
    error = await refused(stand, "p", Family.SHARED, ids(X))
    assert error.sentence == "card x/0 has 10 shares in use, and no more than 10"


async def test_two_shares_of_one_card_are_not_two_cards(stand: Stand) -> None:
    stand.add(pod("p", shares(2), **WAITS))
    error = await refused(stand, "p", Family.SHARED, ["x:x/0:480000", "x:x/0:1120000"])
    assert error.code is Code.FAILED_PRECONDITION
    assert error.sentence == "a container takes one share of a card; 2 shares of card x/0 were offered"


async def test_a_sick_card_is_not_given() -> None:
    stand = node(sick=(0,))
    stand.add(pod("p", whole(), **WAITS))
    assert (await refused(stand, "p", Family.EXCLUSIVE, ids(X))).sentence == "card x/0 is not healthy"


async def test_other_cards_are_given_while_one_is_lost() -> None:
    stand = node(sick=(0,))
    stand.add(pod("holder", record=given(whole_entry(X), ids=ids(X))), pod("p", whole(), **WAITS))
    await stand.admit("p", Family.EXCLUSIVE, ids(Y))
    assert stand.row(X).mode == Family.EXCLUSIVE


async def test_a_container_takes_cards_in_one_way(stand: Stand) -> None:
    stand.add(pod("p", whole() | shares(), **WAITS))
    await stand.admit("p", Family.EXCLUSIVE, ids(X))
    error = await refused(stand, "p", Family.SHARED, ids(Y))
    assert error.code is Code.FAILED_PRECONDITION
    assert stand.record("p") == given(whole_entry(X), ids=ids(X))


async def test_a_slice_without_memory_is_refused(stand: Stand) -> None:
    stand.add(pod("p", {RESOURCES[Family.SLICED]: "1"}, **WAITS))
    error = await refused(stand, "p", Family.SLICED, ids(X))
    assert error.code is Code.FAILED_PRECONDITION
    assert error.sentence == "container main: a slice asks for no memory; set its memory in percent or in MiB"


# --- Room for slices --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("others", "slots", "asked", "is_given"),
    [
        pytest.param([60], 128, 50, False, id="over the card"),
        pytest.param([50], 128, 50, True, id="exactly full"),
        pytest.param([10, 10, 10, 10], 4, 30, False, id="no slot left"),
        pytest.param([10, 10, 10], 4, 30, True, id="the last slot"),
    ],
)
async def test_a_slice_fits_or_is_refused(others: list[int], slots: int, asked: int, is_given: bool) -> None:
    stand = node(slots=slots)
    stand.add(*(pod(f"o{number}", record=slice_of(percent)) for number, percent in enumerate(others)))
    stand.add(pod("p", slices(asked), **WAITS))
    outcome = await _outcome(stand, "p")
    assert (outcome is Code.OK) is is_given
    assert (stand.annotation("p") is not None) is is_given


async def test_a_refused_slice_is_told_with_what_is_left(stand: Stand) -> None:
    stand.add(pod("other", record=slice_of(60)), pod("p", slices(50), **WAITS))
    error = await refused(stand, "p", Family.SLICED, ids(X))
    assert error.sentence == "card x/0 has 640000 units and 127 slices left; 800000 units were asked"


async def test_who_asks_again_is_not_counted_against_itself(stand: Stand) -> None:
    stand.add(pod("other", record=slice_of(40)), pod("p", slices(60), **WAITS))
    await stand.admit("p", Family.SLICED, ids(X))
    stand.kubelet.pods.clear()
    await stand.admit("p", Family.SLICED, ids(X, index=1))
    assert stand.percent(X) == 100


async def test_nor_after_a_restart(stand: Stand) -> None:
    stand.add(pod("other", record=slice_of(40)), pod("p", slices(60), record=slice_of(60), **WAITS))
    stand.restart()
    await stand.admit("p", Family.SLICED, ids(X))
    assert stand.percent(X) == 100


async def test_what_is_only_reserved_counts(stand: Stand) -> None:
    stand.add(pod("n", slices(60), **WAITS), pod("p", slices(50), **WAITS))
    stand.cache.lag()
    await stand.admit("n", Family.SLICED, ids(X))
    assert await _outcome(stand, "p") is Code.FAILED_PRECONDITION


async def test_what_a_vanished_pod_had_reserved_does_not(stand: Stand) -> None:
    stand.books.reservations.reserve(("gone", "main"), slice_of(100)["main"])
    stand.add(pod("p", slices(60), **WAITS))
    assert await _outcome(stand, "p") is Code.OK


async def test_a_finished_pod_has_given_its_slice_back(stand: Stand) -> None:
    stand.add(pod("other", record=slice_of(60), phase="Succeeded"), pod("p", slices(60), **WAITS))
    assert await _outcome(stand, "p") is Code.OK


async def test_a_holder_whose_end_the_cache_has_missed_is_looked_up(stand: Stand) -> None:
    stand.add(pod("other", record=slice_of(60)), pod("p", slices(60), **WAITS))
    stand.cache.lag()
    stand.remove("other")
    assert await _outcome(stand, "p") is Code.OK


async def test_containers_of_one_pod_share_a_card(stand: Stand) -> None:
    record = {"c1": slice_of(40, container="c1")["c1"]}
    stand.add(pod("other", record=slice_of(20)), pod("p", slices(40), {}, record=record, **WAITS))
    assert await _outcome(stand, "p") is Code.OK
    assert stand.percent(X) == 100


async def test_two_thousand_mib_fit_twenty_three_times_on_a_card_of_46068() -> None:
    stand = Stand(cards_of("x", 1, memory=46068))
    limits = {RESOURCES[Family.SLICED]: "1", "nvidia.com/gpu.sliced.memory-mib": "2000"}
    stand.add(
        *(pod(f"p{number:02}", limits, created=f"2026-01-01T00:00:{number:02}Z", **WAITS) for number in range(24))
    )
    outcomes = [await _outcome(stand, f"p{number:02}", index=number) for number in range(24)]
    assert outcomes == [Code.OK] * 23 + [Code.FAILED_PRECONDITION]


async def _outcome(stand: Stand, name: str, *, index: int = 99) -> Code:
    try:
        await stand.admit(name, Family.SLICED, ids(X, index=index))
    except RefusalError as error:
        del stand.kubelet.pods["default", name]
        return error.code
    return Code.OK


# --- For whom ---------------------------------------------------------------------------------------------------------


@pytest.fixture
async def batch() -> Stand:
    """Three Pods wait: a the oldest, with 60 %, then b and c with 50 %."""
    stand = Stand(cards_of("x", 2))
    stand.add(
        pod("a", slices(60), created="2026-01-01T00:00:01Z", **WAITS),
        pod("b", slices(50), created="2026-01-01T00:00:02Z", **WAITS),
        pod("c", slices(50), created="2026-01-01T00:00:03Z", **WAITS),
    )
    return stand


async def served(stand: Stand, card: str = X) -> list[str]:
    await stand.desk(Family.SLICED).allocate(ids(card))
    return [name for name in ("a", "b", "c") if stand.annotation(name)]


async def test_the_pod_that_the_kubelet_admits_is_served(batch: Stand) -> None:
    batch.kubelet.admits("b")
    assert await served(batch) == ["b"]


async def test_of_several_the_oldest_that_fits(batch: Stand) -> None:
    batch.add(pod("base", record=slice_of(45)))
    batch.kubelet.holds("base", Family.SLICED, ids(X, index=45))
    for name in ("a", "b", "c"):
        batch.kubelet.admits(name)
    assert await served(batch) == ["b"]


async def test_one_that_waits_is_served_even_if_it_does_not_fit(batch: Stand) -> None:
    batch.add(pod("base", record=slice_of(60)))
    batch.kubelet.holds("base", Family.SLICED, ids(X, index=60))
    batch.kubelet.admits("a")
    error = await refused(batch, "a", Family.SLICED, ids(X))
    assert error.code is Code.FAILED_PRECONDITION
    assert [batch.annotation(name) for name in ("a", "b", "c")] == [None, None, None]


async def test_without_a_word_of_the_kubelet_the_oldest(batch: Stand) -> None:
    batch.kubelet.admits("stranger")
    assert await served(batch) == ["a"]


async def test_one_that_was_served_and_waits_again_is_served_again(batch: Stand) -> None:
    await batch.admit("a", Family.SLICED, ids(X))
    batch.kubelet.pods = {("default", "a"): {"main": {}}}
    assert await served(batch, Y) == ["a"]
    assert batch.record("a")["main"].device_ids == ("x:x/1:0000",)


async def test_a_pod_that_the_cache_has_not_shown_yet_is_looked_up(stand: Stand) -> None:
    stand.cache.lag()
    stand.add(pod("late", slices(60), **WAITS))
    await stand.admit("late", Family.SLICED, ids(X))
    assert stand.percent(X) == 60
    await stand.bookkeeper.settle()
    assert stand.percent(X) == 60


async def test_a_container_that_starts_again_after_a_lost_checkpoint_is_served(stand: Stand) -> None:
    stand.add(pod("p", slices(60), record=slice_of(60)))
    stand.kubelet.admits("p")
    await stand.admit("p", Family.SLICED, ids(X))
    assert stand.percent(X) == 60


async def test_after_a_lost_checkpoint_a_running_pods_card_is_not_given_again(stand: Stand) -> None:
    stand.add(pod("running", whole(), record=given(whole_entry(X), ids=ids(X))), pod("p", whole(), **WAITS))
    stand.kubelet.admits("running")
    error = await refused(stand, "p", Family.EXCLUSIVE, ids(X))
    assert error.sentence == "card x/0 is held as a whole by another container"


# --- The kubelet's answer wins ----------------------------------------------------------------------------------------


async def test_only_a_card_in_doubt_is_withheld(stand: Stand) -> None:
    stand.add(pod("odd", whole(), record=given(whole_entry(Y), ids=ids(Y))), pod("p", slices(10), **WAITS))
    stand.kubelet.holds("odd", Family.EXCLUSIVE, ids(X))
    error = await refused(stand, "p", Family.SLICED, ids(X))
    assert error.sentence == "card x/0 is withheld until its record agrees with the kubelet"


async def test_a_record_that_disagrees_is_put_right(stand: Stand) -> None:
    stand.add(pod("odd", whole(), record=given(whole_entry(Y), ids=ids(Y))))
    stand.kubelet.holds("odd", Family.EXCLUSIVE, ids(X))
    await stand.bookkeeper.settle()
    assert stand.record("odd") == given(whole_entry(X), ids=ids(X))
    assert (stand.row(X).mode, stand.row(Y).mode) == (Family.EXCLUSIVE, Family.NONE)
    assert stand.told == [
        "container main: recorded with x:x/1:0000, the kubelet says x:x/0:0000; the record now says the same"
    ]


@pytest.mark.parametrize("record", [None, "no record"], ids=["none", "unreadable"])
async def test_a_missing_record_is_made_from_what_the_kubelet_says(stand: Stand, record: str | None) -> None:
    stand.add(pod("odd", slices(30), record=record))
    stand.kubelet.holds("odd", Family.SLICED, ids(X))
    await stand.bookkeeper.settle()
    assert stand.percent(X) == 30


async def test_what_the_kubelet_does_not_mention_stays(stand: Stand) -> None:
    stand.add(pod("p", whole(), record=given(whole_entry(X), ids=ids(X))))
    before = stand.annotation("p")
    await stand.bookkeeper.settle()
    assert stand.annotation("p") == before
    assert stand.api.writes == []


@pytest.mark.parametrize(
    "held", [ids("x/9"), ["what is this"], ["x:x/0"]], ids=["no card of the node", "no id of ours", "half an id"]
)
async def test_what_cannot_be_read_changes_no_record(stand: Stand, held: list[str]) -> None:
    stand.add(pod("p", whole(), record=given(whole_entry(X), ids=ids(X))))
    before = stand.annotation("p")
    stand.kubelet.holds("p", Family.EXCLUSIVE, held)
    await stand.bookkeeper.settle()
    assert stand.annotation("p") == before
    assert stand.metrics.value("gpustack_agent_ledger_drift", **{"with": "kubelet"}) == 1


async def test_a_kubelet_that_is_away_stops_no_ledger(stand: Stand) -> None:
    stand.kubelet.is_away = True
    stand.add(pod("p", record=slice_of(30)))
    groups = await stand.bookkeeper.settle()
    assert groups is not None
    assert [row.remaining for row in groups[0].accelerators or ()] == [1_120_000, 1_600_000]


async def test_a_finished_pod_is_not_compared(stand: Stand) -> None:
    stand.add(pod("p", whole(), phase="Failed"))
    stand.kubelet.holds("p", Family.EXCLUSIVE, ids(X))
    await stand.bookkeeper.settle()
    assert stand.annotation("p") is None


# --- Visibility -------------------------------------------------------------------------------------------------------

SEES = {RESOURCES[Family.VISIBILITY]: "1"}


async def test_a_helper_sees_the_card_of_its_pod(stand: Stand) -> None:
    stand.add(pod("p", whole(), SEES, **WAITS))
    await stand.admit("p", Family.EXCLUSIVE, ids(X))
    injected = await stand.admit("p", Family.VISIBILITY, ids(Y), container="c1")
    assert injected.variables == {"CARDS": X}
    assert list(stand.record("p")) == ["main"]


async def test_a_helper_without_an_owner_sees_nothing(stand: Stand) -> None:
    stand.add(pod("p", {}, SEES, **WAITS))
    error = await refused(stand, "p", Family.VISIBILITY, ids(X))
    assert error.code is Code.FAILED_PRECONDITION


async def test_a_helper_sees_as_many_cards_as_it_asked_for(stand: Stand) -> None:
    stand.add(pod("p", {}, SEES, record=given(whole_entry(X), whole_entry(Y), ids=ids(X, Y)), **WAITS))
    error = await refused(stand, "p", Family.VISIBILITY, ids(X))
    assert error.sentence == "container main holds 2 cards, 1 were asked to be made visible"
