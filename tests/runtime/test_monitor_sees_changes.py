"""The monitor survives whatever a detector does, and wakes the reporter only when something has changed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from gpustack_op.agent.announcements import Announcements
from gpustack_op.agent.cpu import Cpu
from gpustack_op.agent.detector.base import Detection, DetectionError, Host
from gpustack_op.agent.monitor import Monitor
from gpustack_op.api.worker import Devices
from tests.builders import raw_card

CARD, OTHER = raw_card(uuid="GPU-1"), raw_card(uuid="GPU-2")


class ScriptedDetector:
    """Answers with what stands in `answer`: cards, or an exception. `often` is set once it was asked 20 times."""

    def __init__(self) -> None:
        self.answer: Callable[[], Detection] = lambda: Detection((CARD,))
        self.asked = 0
        self.often = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def host(self) -> Host:
        return Host(Cpu(cores=4), "one")

    def detect(self) -> Detection:
        self.asked += 1
        if self.asked == 20:
            self._loop.call_soon_threadsafe(self.often.set)
        return self.answer()


class FakeReport:
    """What the cluster says; synced from the start unless a test holds it back."""

    def __init__(self) -> None:
        self.synced = asyncio.Event()
        self.synced.set()
        self.waiting = asyncio.Event()
        self.recovery = 60.0

    def devices(self) -> Devices | None:
        return None

    def recovery_period(self) -> float:
        return self.recovery

    async def wait_synced(self) -> None:
        self.waiting.set()
        await self.synced.wait()


class Silent:
    def event(self, *_arguments: object, **_more: object) -> None: ...


class Stand:
    def __init__(self, *, patience: float = 10.0) -> None:
        self.detector, self.report = ScriptedDetector(), FakeReport()
        self.woken = 0
        self.awake = asyncio.Event()
        self.monitor = Monitor(
            self.detector,
            self.report,
            Announcements(Silent(), lambda: None),
            wake=self._wake,
            period=0.001,
            patience=patience,
        )

    def _wake(self) -> None:
        self.woken += 1
        self.awake.set()

    @property
    def told(self) -> list[tuple[str, bool]]:
        roster = self.monitor.sight.roster if self.monitor.sight else ()
        return [(known.card.uuid, not known.health.unhealthy) for known in roster]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        stop = asyncio.Event()
        task = asyncio.create_task(self.monitor.run(stop))
        try:
            yield
        finally:
            stop.set()
            await asyncio.wait_for(task, 5)


async def test_a_machine_that_stays_as_it_is_wakes_nobody_again() -> None:
    stand = Stand()
    async with stand.running():
        await asyncio.wait_for(stand.detector.often.wait(), 5)
    assert (stand.told, stand.woken) == ([("GPU-1", True)], 1)


async def test_every_change_wakes_the_reporter() -> None:
    stand = Stand()
    await stand.monitor.look()
    stand.detector.answer = lambda: Detection((CARD, OTHER))
    await stand.monitor.look()
    stand.detector.answer = lambda: Detection((OTHER,))
    await stand.monitor.look()
    assert (stand.told, stand.woken) == ([("GPU-1", False), ("GPU-2", True)], 3)


@pytest.mark.parametrize("error", [DetectionError("the library is gone"), OSError("no such file"), ValueError("?")])
async def test_a_detector_that_raises_makes_every_card_sick(error: Exception) -> None:
    stand = Stand()
    await stand.monitor.look()

    def fail() -> Detection:
        raise error

    stand.detector.answer = fail
    await stand.monitor.look()
    assert stand.told == [("GPU-1", False)]


async def test_a_detector_that_hangs_makes_every_card_sick_and_is_not_asked_again_meanwhile() -> None:
    stand, release = Stand(patience=0.01), threading.Event()
    await stand.monitor.look()

    def hang() -> Detection:
        release.wait(5)
        return Detection((CARD,))

    stand.detector.answer = hang
    try:
        await stand.monitor.look()
        await stand.monitor.look()
        assert (stand.told, stand.detector.asked) == ([("GPU-1", False)], 2)
    finally:
        release.set()
    stand.report.recovery = 0
    await until_well(stand)
    assert stand.told == [("GPU-1", True)]


async def until_well(stand: Stand) -> None:
    async with asyncio.timeout(5):
        while stand.told != [("GPU-1", True)]:
            await stand.monitor.look()


async def test_a_change_of_the_recovery_period_takes_effect_at_once() -> None:
    stand = Stand()
    stand.detector.answer = lambda: Detection((raw_card(uuid="GPU-1", healthy=False),))
    await stand.monitor.look()
    stand.detector.answer = lambda: Detection((CARD,))
    await stand.monitor.look()
    assert stand.told == [("GPU-1", False)]
    stand.report.recovery = 0
    await stand.monitor.look()
    assert stand.told == [("GPU-1", True)]


async def test_nothing_is_judged_before_the_former_report_is_known() -> None:
    stand = Stand()
    stand.report.synced.clear()
    async with stand.running():
        assert not stand.report.waiting.is_set()
        await asyncio.wait_for(stand.report.waiting.wait(), 5)
        assert stand.detector.asked == 0
        stand.report.synced.set()
        await asyncio.wait_for(stand.awake.wait(), 5)


async def test_it_stops_while_the_former_report_is_still_unknown() -> None:
    stand = Stand()
    stand.report.synced.clear()
    async with stand.running():
        await asyncio.wait_for(stand.report.waiting.wait(), 5)
    assert stand.detector.asked == 0
