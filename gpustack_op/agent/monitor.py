"""Looks at the machine, again and again, and says when something has changed.

Owns      the sight of the machine, in memory.
Never     writes; waits for the API server once the caches have synced.
Promises  a change of the machine is seen within two periods; a detector that hangs counts as one that cannot be asked,
          and is not called again before it has answered; what fails is told once, and once when it works again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from gpustack_op.agent.announcements import Announcements
from gpustack_op.agent.detector.base import Detection, DetectionError, Detector, Host
from gpustack_op.agent.ledger import charged, rows_of
from gpustack_op.agent.roster import Pass
from gpustack_op.agent.sight import Look, Sight, next_sight
from gpustack_op.api.worker import Devices
from gpustack_op.runtime.clock import elapsed

PERIOD = 0.5
"""Seconds between two looks: a card that is pulled must leave the free counts before somebody is sent to it."""

PATIENCE = 10.0
"""Seconds that a detector may take. The vendors' libraries answer in milliseconds, or hang for good."""

A = TypeVar("A")
Answer = tuple[Host | None, Detection | None, str]
"""The host, the cards, and why one of them is None."""


class Report(Protocol):
    """What the monitor has to know of the cluster: informers, in a program."""

    def devices(self) -> Devices | None: ...
    def recovery_period(self) -> float: ...
    async def wait_synced(self) -> None: ...


class Monitor:
    """`sight` is None until the machine has been seen."""

    name = "monitor"

    def __init__(
        self,
        detector: Detector,
        report: Report,
        announcements: Announcements,
        *,
        wake: Callable[[], None],
        period: float = PERIOD,
        patience: float = PATIENCE,
    ) -> None:
        self.sight: Sight | None = None
        self._detector = detector
        self._report = report
        self._announcements = announcements
        self._wake = wake
        self._period = period
        self._patience = patience
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="detector")
        self._asked: asyncio.Future[Answer] | None = None

    async def run(self, stop: asyncio.Event) -> None:
        stopped = asyncio.create_task(stop.wait())
        try:
            await _either(self._report.wait_synced(), stopped)
            while not stopped.done():
                await self.look()
                await asyncio.wait((stopped,), timeout=self._period)
        finally:
            stopped.cancel()
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def look(self) -> None:
        """Ask once, and wake whoever reports if anything is not as it was."""
        host, detection, problem = await self._ask()
        self._announcements.asked(problem)
        if detection is not None:
            self._announcements.broken(detection.broken)
        report = self._report.devices()
        made = Pass(
            now=elapsed(),
            recovery=self._report.recovery_period(),
            boot_id=host.boot_id if host else "",
            charged=charged(rows_of(report)),
        )
        before, self.sight = self.sight, next_sight(self.sight, Look(host, detection), made, report)
        if self.sight is not None and self.sight != before:
            self._announcements.changed(before.roster if before else (), self.sight.roster)
            self._wake()

    async def _ask(self) -> Answer:
        if self._asked is None:
            self._asked = asyncio.get_running_loop().run_in_executor(self._thread, _ask, self._detector)
        done, _ = await asyncio.wait((self._asked,), timeout=self._patience)
        if not done:
            return None, None, f"the detector has not answered within {self._patience:g} s"
        answered, self._asked = self._asked, None
        return answered.result()


def _ask(detector: Detector) -> Answer:
    """Runs in the detector's thread. The host may be known although its cards cannot be asked about."""
    detection, cards_problem = _tried(detector.detect)
    host, host_problem = _tried(detector.host)
    return host, detection, cards_problem or host_problem


def _tried(question: Callable[[], A]) -> tuple[A | None, str]:
    """Whatever a vendor's library throws means that it could not be asked."""
    try:
        return question(), ""
    except DetectionError as error:
        return None, str(error)
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"


async def _either(one: Coroutine[object, object, None], other: asyncio.Task[bool]) -> None:
    """Waits for the first of two."""
    waiting = asyncio.ensure_future(one)
    try:
        await asyncio.wait((waiting, other), return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
