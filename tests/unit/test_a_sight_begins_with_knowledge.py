"""Nothing is told of a machine before something is known of it, and what was known is not forgotten in the dark."""

from __future__ import annotations

import msgspec

from gpustack_op.agent import bodies
from gpustack_op.agent.cpu import Cpu
from gpustack_op.agent.detector.base import Detection, Host
from gpustack_op.agent.roster import Pass
from gpustack_op.agent.sight import Look, Sight, next_sight
from gpustack_op.api.worker import Devices
from gpustack_op.scheduling.device_groups import device_groups
from tests import builders
from tests.builders import raw_card

HOST = Host(Cpu(cores=4), "one")
NOW = Pass(now=100, recovery=60, boot_id="one")
DARK = Look(None, None)


def look(*uuids: str) -> Look:
    return Look(HOST, Detection(tuple(raw_card(uuid=uuid) for uuid in uuids)))


def first(seen: Look, report: Devices | None = None) -> Sight | None:
    return next_sight(None, seen, NOW, report)


def report_of(sight: Sight | None) -> Devices:
    assert sight is not None
    groups = device_groups(known.reported for known in sight.roster)
    return msgspec.convert(bodies.devices(builders.node("a10g"), groups, sight.roster), Devices)


def told(sight: Sight | None) -> list[tuple[str, bool]] | None:
    return None if sight is None else [(known.card.uuid, not known.health.unhealthy) for known in sight.roster]


def test_before_the_first_answer_nothing_is_known() -> None:
    assert first(DARK) is None
    assert first(Look(HOST, None)) is None


def test_no_card_is_knowledge() -> None:
    assert first(look()) == Sight(HOST)


def test_an_agent_that_starts_in_the_dark_tells_the_cards_of_the_last_report_sick() -> None:
    assert told(first(DARK, report_of(first(look("a", "b"))))) == [("a", False), ("b", False)]


def test_a_card_that_vanished_while_no_agent_ran_is_missed() -> None:
    assert told(first(look("a"), report_of(first(look("a", "b"))))) == [("a", True), ("b", False)]


def test_a_host_that_cannot_be_asked_any_more_stays_as_it_was() -> None:
    sight = next_sight(first(look("a")), DARK, NOW, None)
    assert sight is not None
    assert (sight.host, told(sight)) == (HOST, [("a", False)])


def test_a_report_is_recalled_once_and_not_believed_over_memory() -> None:
    sight = next_sight(first(look("a")), look("a"), NOW, report_of(first(look("a", "b"))))
    assert told(sight) == [("a", True)]


def test_a_manufacturer_stays_ours_when_its_last_card_is_forgotten() -> None:
    rebooted = Look(Host(HOST.cpu, "two"), Detection())
    sight = next_sight(first(look("a")), rebooted, Pass(now=200, recovery=60, boot_id="two"), None)
    assert sight is not None
    assert (sight.roster, sight.manufacturers) == ((), frozenset({"nvidia"}))
