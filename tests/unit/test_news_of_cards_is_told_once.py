"""A line in the log and an Event on the Node when something begins and when it ends, and none in between."""

from __future__ import annotations

from dataclasses import dataclass, field

from structlog.testing import capture_logs

from gpustack_op.agent.announcements import Announcements
from gpustack_op.agent.health import SICK, Health
from gpustack_op.agent.roster import Known
from gpustack_op.api.core import Node
from gpustack_op.api.meta import Resource
from tests import builders
from tests.builders import raw_card

WELL = Known(raw_card(uuid="GPU-1"), "", Health(unhealthy=False, since=0))
ILL = Known(raw_card(uuid="GPU-1"), "", SICK)
BROKEN = 'f.yaml: accelerators[0] (GPU-2): memoryMib "lots": write a whole number or null'


@dataclass
class Recorded:
    events: list[tuple[str, str, str]] = field(default_factory=list)

    def event(
        self, regarding: Node, type_: str, reason: str, message: str, *, action: str, resource: Resource[Node]
    ) -> None:
        self.events.append((type_, reason, message))


def test_a_broken_card_is_told_once_until_it_is_broken_otherwise() -> None:
    recorded = Recorded()
    news = Announcements(recorded, lambda: builders.node("a10g"))
    with capture_logs() as logs:
        for broken in ([BROKEN], [BROKEN], [], [BROKEN]):
            news.broken(broken)
    assert [(line["event"], line["error"]) for line in logs] == [("accelerator.broken", BROKEN)] * 2
    assert recorded.events == [("Warning", "AcceleratorBroken", f"{BROKEN}; it is not given out")] * 2


def test_a_detector_that_fails_is_told_once_and_once_when_it_answers_again() -> None:
    recorded = Recorded()
    news = Announcements(recorded, lambda: builders.node("a10g"))
    with capture_logs() as logs:
        for problem in ("", "no file", "no file", "", ""):
            news.asked(problem)
    assert [line["event"] for line in logs] == ["detector.failing", "detector.recovered"]
    assert [reason for _, reason, _ in recorded.events] == ["DetectionFailed", "DetectionRecovered"]
    assert recorded.events[0][2] == "no file; every known accelerator counts as unhealthy"


def test_health_is_told_when_it_changes() -> None:
    recorded = Recorded()
    news = Announcements(recorded, lambda: builders.node("a10g"))
    with capture_logs() as logs:
        news.changed((), (WELL,))
        news.changed((WELL,), (ILL,))
        news.changed((ILL,), (ILL,))
        news.changed((ILL,), (WELL,))
        news.changed((WELL,), ())
    assert [line["event"] for line in logs] == [
        "accelerator.found",
        "accelerator.unhealthy",
        "accelerator.recovered",
        "accelerator.forgotten",
    ]
    assert recorded.events == [
        (
            "Warning",
            "AcceleratorUnhealthy",
            "accelerator GPU-1 (NVIDIA A10G) is unhealthy or absent and is not given out",
        ),
        ("Normal", "AcceleratorRecovered", "accelerator GPU-1 (NVIDIA A10G) is healthy and is given out again"),
    ]


def test_without_a_node_there_is_only_the_log() -> None:
    recorded = Recorded()
    with capture_logs() as logs:
        Announcements(recorded, lambda: None).broken([BROKEN])
    assert (len(logs), recorded.events) == (1, [])
