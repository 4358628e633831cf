"""Sick at once, healthy after a while; a card once seen stays until a reboot finds it absent and unused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpustack_op.agent.health import Health
from gpustack_op.agent.roster import Known, Pass, Roster, detected, unmeasured
from gpustack_op.scheduling.device_groups import RawCard

RECOVERY = 60.0


def card(uuid: str, *, healthy: bool = True, driver: str = "580") -> RawCard:
    return RawCard(manufacturer="nvidia", uuid=uuid, name="Tesla T4", healthy=healthy, driver_version=driver)


def at(now: float, *, boot: str = "one", charged: tuple[str, ...] = ()) -> Pass:
    return Pass(now=now, recovery=RECOVERY, boot_id=boot, charged=charged)


def seen(*uuids: str) -> Roster:
    return detected((), [card(uuid) for uuid in uuids], at(0))


def told(roster: Roster) -> list[tuple[str, str]]:
    return [(known.card.uuid, "sick" if known.health.unhealthy else "well") for known in roster]


def test_a_card_seen_for_the_first_time_is_what_it_says() -> None:
    assert told(detected((), [card("a"), card("b", healthy=False)], at(0))) == [("a", "well"), ("b", "sick")]


@pytest.mark.parametrize(
    ("history", "state"),
    [
        pytest.param([(10, False)], "sick", id="sick at once"),
        pytest.param([(10, False), (20, True)], "sick", id="not well at its first good word"),
        pytest.param([(10, False), (20, True), (79.9, True)], "sick", id="not well a moment too early"),
        pytest.param([(10, False), (20, True), (80, True)], "well", id="well after the recovery period"),
        pytest.param(
            [(10, False), (20, True), (50, False), (60, True), (100, True)], "sick", id="a relapse starts anew"
        ),
        pytest.param([(10, True), (500, True)], "well", id="never was sick"),
    ],
)
def test_health_returns_after_a_time_without_relapse(history: list[tuple[float, bool]], state: str) -> None:
    roster = seen("a")
    for now, healthy in history:
        roster = detected(roster, [card("a", healthy=healthy)], at(now))
    assert told(roster) == [("a", state)]


def test_a_shorter_recovery_period_takes_effect_at_once() -> None:
    roster = (Known(card("a"), "one", Health(unhealthy=True, since=100)),)
    assert told(detected(roster, [card("a")], Pass(now=103, recovery=3, boot_id="one"))) == [("a", "well")]


def test_an_absent_card_stays_at_its_index_and_is_sick() -> None:
    roster = detected(seen("a", "b", "c"), [card("a"), card("c")], at(10))
    assert told(roster) == [("a", "well"), ("b", "sick"), ("c", "well")]


def test_a_new_card_comes_after_those_that_are_known() -> None:
    roster = detected(seen("a", "b"), [card("b"), card("new")], at(10))
    assert told(roster) == [("a", "sick"), ("b", "well"), ("new", "well")]


def test_a_card_that_comes_back_recovers_like_a_sick_one() -> None:
    roster = detected(seen("a"), [], at(10))
    roster = detected(roster, [card("a")], at(20))
    assert told(roster) == [("a", "sick")]
    assert told(detected(roster, [card("a")], at(80))) == [("a", "well")]


def test_when_the_driver_cannot_be_asked_every_card_stays_and_is_sick() -> None:
    assert told(unmeasured(seen("a", "b"))) == [("a", "sick"), ("b", "sick")]


@pytest.mark.parametrize(
    ("boot", "charged", "kept"),
    [
        pytest.param("one", (), ["a", "b"], id="no reboot"),
        pytest.param("two", (), ["a"], id="a reboot"),
        pytest.param("two", ("b",), ["a", "b"], id="a reboot, but it is charged"),
        pytest.param("two", ("a",), ["a"], id="a reboot, another is charged"),
        pytest.param("", (), ["a", "b"], id="nobody knows the boot"),
    ],
)
def test_an_absent_card_is_forgotten_after_a_reboot_when_nothing_is_charged(
    boot: str, charged: tuple[str, ...], kept: list[str]
) -> None:
    roster = detected(seen("a", "b"), [card("a")], at(10, boot=boot, charged=charged))
    assert [known.card.uuid for known in roster] == kept


def test_a_card_lost_after_the_reboot_waits_for_the_next_one() -> None:
    rebooted = detected(seen("a", "b"), [card("a"), card("b")], at(10, boot="two"))
    assert told(detected(rebooted, [card("a")], at(20, boot="two"))) == [("a", "well"), ("b", "sick")]


def test_an_absent_card_of_an_unknown_boot_waits_for_the_next_one() -> None:
    roster = (Known(card("a"), "", Health(unhealthy=False, since=0)),)
    first = detected(roster, [], at(10, boot="one"))
    assert told(first) == [("a", "sick")]
    assert told(detected(first, [], at(20, boot="two"))) == []


def test_a_charged_card_is_forgotten_once_it_is_free() -> None:
    held = detected(seen("a", "b"), [card("a")], at(10, boot="two", charged=("b",)))
    assert told(detected(held, [card("a")], at(20, boot="two"))) == [("a", "well")]


def test_an_absent_card_is_told_with_the_present_driver() -> None:
    roster = detected(seen("a", "b"), [card("b", driver="590")], at(10))
    assert [known.card.driver_version for known in roster] == ["590", "590"]


def test_what_is_told_of_a_recovering_card_is_that_it_is_sick() -> None:
    known = Known(card("a", healthy=True), "one", Health(unhealthy=True, since=5))
    assert known.reported == replace(known.card, healthy=False)
