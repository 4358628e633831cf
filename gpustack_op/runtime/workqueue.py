"""Keys to work on: each at most once in the queue, and never twice at once.

Guarantees   A key that is added while queued stays one entry; added while it is worked on, it runs once more
             afterwards, however often it was added. Among waits for one key the earliest wins, and a plain `add` ends
             any wait: an event runs a key that is backing off at once, and no add ever moves a key later. Higher
             priorities are handed out first; within a priority first come, first served.
Assumptions  One event loop. Whoever takes a key with `get` gives it back with `done`, whatever happened. Live events
             may starve lower priorities for as long as they keep the workers busy.
Recovery     `shut_down` wakes every `get` with `ShutDownError`, forgets what waits, and refuses later adds without a
             word. Keys in work finish; `idle` waits for them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from gpustack_op.runtime.clock import elapsed
from gpustack_op.runtime.metrics import Metrics
from gpustack_op.runtime.queue_instruments import QueueInstruments
from gpustack_op.runtime.rate_limits import FailureCounts, KeyBackoff, TokenBucket

K = TypeVar("K", bound=Hashable)

LIVE = 0
"""Priority of live events, and the default."""
LOW = -100
"""Priority of the initial list and of resync."""


class ShutDownError(Exception):
    """The queue hands out no more keys."""


@dataclass(slots=True)
class _Wait:
    due: float
    priority: int
    timer: asyncio.TimerHandle


class WorkQueue(Generic[K]):
    """Dedupes, delays, limits and measures.

    name     label of its metrics; name it after the controller.
    backoff  see `KeyBackoff`. bucket  see `TokenBucket`; limits `add_rate_limited` alone.
    """

    def __init__(
        self,
        name: str,
        *,
        metrics: Metrics | None = None,
        backoff: KeyBackoff | None = None,
        bucket: TokenBucket | None = None,
    ) -> None:
        self.name = name
        self.instruments = QueueInstruments(metrics or Metrics(), name, depth=self.__len__, working=self.working)
        self._backoff = backoff or KeyBackoff()
        self._bucket = bucket or TokenBucket()
        self._failures: FailureCounts[K] = FailureCounts()
        self._lanes: dict[int, deque[K]] = {}
        self._queued: dict[K, tuple[int, float]] = {}
        self._again: dict[K, int] = {}
        self._working: dict[K, float] = {}
        self._waits: dict[K, _Wait] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False
        self._draining = False

    def __len__(self) -> int:
        """Keys that could be handed out now; those that wait or are in work do not count."""
        return len(self._queued)

    def measure_with(self, metrics: Metrics) -> None:
        """Move the instruments to another registry; before the first key."""
        self.instruments = QueueInstruments(metrics, self.name, depth=self.__len__, working=self.working)

    def working(self) -> dict[K, float]:
        """The keys in work and when each was handed out."""
        return self._working

    def failures(self, key: K) -> int:
        return self._failures.of(key)

    def add(self, key: K, *, priority: int = LIVE) -> None:
        """Run this key as soon as a worker is free."""
        if self._closed:
            return
        wait = self._waits.pop(key, None)
        if wait is not None:
            wait.timer.cancel()
            priority = max(priority, wait.priority)
        if key not in self._queued and key not in self._again:
            self.instruments.adds.inc()
        if key in self._working:
            self._again[key] = max(priority, self._again.get(key, priority))
        else:
            self._enqueue(key, priority)

    def add_after(self, key: K, seconds: float, *, priority: int = LIVE) -> None:
        """Run this key in so many seconds, unless something runs it earlier."""
        if seconds <= 0:
            self.add(key, priority=priority)
        elif not self._closed and key not in self._queued and key not in self._again:
            self._wait(key, elapsed() + seconds, priority)

    def add_rate_limited(self, key: K, *, priority: int = LIVE) -> None:
        """Count a failure of this key and run it again after its back-off and the overall bucket's.

        A key that already waits or is queued will run anyway: such an add changes and counts nothing.
        """
        if self._closed or key in self._queued or key in self._waits:
            return
        failures = self._failures.fail(key)
        self.instruments.retries.inc()
        if key not in self._again:
            self.add_after(key, max(self._backoff.delay(failures), self._bucket.reserve(elapsed())), priority=priority)

    def forget(self, key: K) -> None:
        """Start this key's back-off anew; call it after a success."""
        self._failures.forget(key)

    async def get(self) -> K:
        """The next key, as soon as there is one. Raises `ShutDownError` once the queue is shut down."""
        while True:
            if self._queued and (self._draining or not self._closed):
                return self._take()
            if self._closed:
                raise ShutDownError(self.name)
            await self._key_or_shut_down()

    def done(self, key: K) -> None:
        started = self._working.pop(key)
        self.instruments.work_duration.observe(elapsed() - started)
        if key in self._again:
            priority = self._again.pop(key)
            if not self._closed or self._draining:
                self._enqueue(key, priority)
        if not self._working:
            self._idle.set()

    def shut_down(self, *, drain: bool = False) -> None:
        """Hand out no more keys; with `drain`, hand out first what is queued. Waits are dropped either way."""
        self._closed, self._draining = True, drain
        for wait in self._waits.values():
            wait.timer.cancel()
        self._waits.clear()
        for getter in self._getters:
            if not getter.done():
                getter.set_result(None)

    async def idle(self) -> None:
        """Wait until no key is in work."""
        await self._idle.wait()

    def _enqueue(self, key: K, priority: int) -> None:
        queued = self._queued.get(key)
        if queued is not None and queued[0] >= priority:
            return
        self._queued[key] = (priority, queued[1] if queued else elapsed())
        if priority not in self._lanes:
            self._lanes = dict(sorted([*self._lanes.items(), (priority, deque())], reverse=True))
        self._lanes[priority].append(key)
        self._wake_one()

    def _wait(self, key: K, due: float, priority: int) -> None:
        known = self._waits.get(key)
        if known is not None:
            priority = max(priority, known.priority)
            if known.due <= due:
                known.priority = priority
                return
            known.timer.cancel()
        timer = asyncio.get_running_loop().call_at(due, self._ripe, key)
        self._waits[key] = _Wait(due, priority, timer)

    def _ripe(self, key: K) -> None:
        self.add(key, priority=self._waits[key].priority)

    def _take(self) -> K:
        for priority, lane in self._lanes.items():
            while lane:
                key = lane.popleft()
                queued = self._queued.get(key)
                if queued is not None and queued[0] == priority:  # else it has moved to a higher lane since
                    return self._hand_out(key, queued[1])
        raise AssertionError(f"work queue {self.name}: a queued key is in no lane")

    def _hand_out(self, key: K, queued_at: float) -> K:
        now = elapsed()
        del self._queued[key]
        self._working[key] = now
        self._idle.clear()
        self.instruments.queue_duration.observe(now - queued_at)
        return key

    async def _key_or_shut_down(self) -> None:
        getter = asyncio.get_running_loop().create_future()
        self._getters.append(getter)
        try:
            await getter
        except asyncio.CancelledError:
            if getter.done() and not getter.cancelled():
                self._wake_one()  # the key this getter was woken for needs another one
            raise
        finally:
            if getter in self._getters:
                self._getters.remove(getter)

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return
