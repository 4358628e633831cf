"""Runs a reconciler for every key that its watches wake.

Guarantees   A key is never reconciled twice at once. No exception of a reconcile reaches another key or stops a
             worker: the key comes back after its back-off, and an event runs it earlier. One line is logged when a
             key starts to fail and one when it works again, none in between. Workers start once every watched
             informer has synced; a kind that is not served yet is waited for, and the controller starts by itself
             when it appears.
Assumptions  Reconcilers only await what ends; `timeout` cuts off the rest. Keys are few enough to be held in memory.
Recovery     `Conflict` and `TryAgainError` are retried quietly, and told only when a key has met them several times
             in a row. `TerminalError` rests until the key's next event. Everything else is retried for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any
from uuid import uuid4

from gpustack_op.runtime.clock import elapsed
from gpustack_op.runtime.controller_instruments import ControllerInstruments
from gpustack_op.runtime.errors import NETWORK_ERRORS, ApiError, Conflict
from gpustack_op.runtime.logging import current, logger
from gpustack_op.runtime.metrics import Metrics
from gpustack_op.runtime.rate_limits import KeyBackoff, TokenBucket
from gpustack_op.runtime.reconciler import DONE, Reconciler, Request, Result, TerminalError, TryAgainError
from gpustack_op.runtime.watches import Watch, always, mapped, owned, primary, spec_changed
from gpustack_op.runtime.workqueue import LIVE, ShutDownError, WorkQueue

__all__ = [
    "DONE",
    "Controller",
    "Reconciler",
    "Request",
    "Result",
    "TerminalError",
    "TryAgainError",
    "Watch",
    "always",
    "mapped",
    "owned",
    "primary",
    "spec_changed",
]

log = logger("controller")

QUIET = (Conflict, TryAgainError)
OUTSIDE = (ApiError, *NETWORK_ERRORS)
"""Failures of the world around us; any other exception is a defect and logged with its traceback."""

QUIET_RETRIES = 5
"""So many lost races in a row are ordinary; the next one is told, since a race lost for ever is a failure."""

YIELD_EVERY = 64
"""Reconciles after which a worker lets other tasks run, even if it never had to wait."""

TELL_WAITING_AFTER = 5.0
"""Seconds that informers may take to sync before the log names those that are missing."""


@dataclass(frozen=True, slots=True)
class Running:
    """One reconcile in progress, as its log lines name it."""

    controller: str
    request: Request
    reconcile_id: str

    def log_fields(self) -> Mapping[str, object]:
        return {
            "reconcile_id": self.reconcile_id,
            "controller": self.controller,
            "namespace": self.request.namespace,
            "name": self.request.name,
        }


class Controller:
    """Watches in, reconciles out.

    workers  default 1: keys of one controller seldom wait for one another, and one writer is easy to follow. More help
             where a reconcile waits for the API server. Danger: beyond 8 only latency grows.
    timeout  default 60 s for one reconcile. Danger: shorter than the client's own retries it cuts work that would have
             gone through.
    needs_leader  default True. False is for what every replica must do by itself.
    """

    def __init__(
        self,
        reconciler: Reconciler,
        watches: Sequence[Watch[Any]],
        *,
        workers: int = 1,
        timeout: float = 60.0,
        needs_leader: bool = True,
        metrics: Metrics | None = None,
        backoff: KeyBackoff | None = None,
        bucket: TokenBucket | None = None,
    ) -> None:
        self.name = reconciler.name
        self.needs_leader = needs_leader
        self.queue: WorkQueue[Request] = WorkQueue(self.name, metrics=metrics, backoff=backoff, bucket=bucket)
        self._reconciler = reconciler
        self._watches = watches
        self._workers = workers
        self._timeout = timeout
        self._metrics = metrics
        self._instruments = self._measuring(metrics or Metrics())
        self._failing: dict[Request, str] = {}
        process = uuid4().hex[:8]
        self._ids = (f"{process}-{number}" for number in count(1))
        self._started = False

    def measure_with(self, metrics: Metrics) -> None:
        """Move the instruments to the program's registry, unless one was given already; before `run`."""
        if self._metrics is None:
            self._metrics = metrics
            self._instruments = self._measuring(metrics)
            self.queue.measure_with(metrics)

    def enqueue(self, request: Request, *, priority: int = LIVE) -> None:
        """Wake a key by hand, for instance when a setting has changed."""
        self.queue.add(request, priority=priority)

    @property
    def in_progress(self) -> list[Request]:
        """The keys that are being reconciled at present."""
        return list(self.queue.working())

    @property
    def started(self) -> bool:
        """Whether every watched informer has synced and the workers run."""
        return self._started

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop`, then let reconciles in progress end; cancel it to cut these off."""
        for watch in self._watches:
            watch.subscribe(lambda request, priority: self.queue.add(request, priority=priority))
        if not await self._informers_synced(stop):
            return
        self._started = True
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._workers):
                    group.create_task(self._work(), name=f"{self.name}-{number}")
                await stop.wait()
                self.queue.shut_down()
        finally:
            self._started = False
            self.queue.shut_down()

    def _measuring(self, metrics: Metrics) -> ControllerInstruments:
        return ControllerInstruments(metrics, self.name, self._workers, active=lambda: len(self.queue.working()))

    async def _informers_synced(self, stop: asyncio.Event) -> bool:
        stopped = asyncio.create_task(stop.wait())
        synced = asyncio.gather(*(watch.informer.wait_synced() for watch in self._required()))
        try:
            await asyncio.wait((stopped, synced), timeout=TELL_WAITING_AFTER, return_when=asyncio.FIRST_COMPLETED)
            waiting = not synced.done() and not stopped.done()
            if waiting:
                log.warning("controller.waiting", controller=self.name, kinds=self._unsynced())
                await asyncio.wait((stopped, synced), return_when=asyncio.FIRST_COMPLETED)
            if not synced.done():
                return False
            await synced
            if waiting:
                log.info("controller.started", controller=self.name)
            return True
        finally:
            await _cancelled(stopped, synced)

    def _unsynced(self) -> list[str]:
        return sorted({str(watch.informer.resource) for watch in self._required() if not watch.informer.synced})

    def _required(self) -> list[Watch[Any]]:
        return [watch for watch in self._watches if watch.required]

    async def _work(self) -> None:
        for turn in count(1):
            try:
                request = await self.queue.get()
            except ShutDownError:
                return
            started = elapsed()
            try:
                await self._reconcile(request)
            finally:
                self._instruments.time.observe(elapsed() - started)
                self.queue.done(request)
            if turn % YIELD_EVERY == 0:
                await asyncio.sleep(0)

    async def _reconcile(self, request: Request) -> None:
        token = current.set(Running(self.name, request, next(self._ids)))
        try:
            async with asyncio.timeout(self._timeout) as limit:
                result = await self._reconciler.reconcile(request)
            self._succeeded(request, result)
        except QUIET as error:
            self._lost_race(request, error)
        except TerminalError as error:
            self._gave_up(request, error)
        except TimeoutError as error:
            self._failed(request, self._timed_out(error) if limit.expired() else error)
        except Exception as error:
            self._failed(request, error)
        except asyncio.CancelledError as error:
            if _being_cancelled():
                raise
            self._failed(request, error)  # something the reconcile awaited was cancelled, not the reconcile
        finally:
            current.reset(token)

    def _succeeded(self, request: Request, result: Result) -> None:
        self.queue.forget(request)
        self._works_again(request)
        if result.requeue_after is None:
            self._instruments.success.inc()
        else:
            self._instruments.requeue_after.inc()
            self.queue.add_after(request, result.requeue_after)

    def _lost_race(self, request: Request, error: Exception) -> None:
        self._instruments.requeue.inc()
        self.queue.add_rate_limited(request)
        if self.queue.failures(request) > QUIET_RETRIES:
            self._starts_failing(request, error)

    def _failed(self, request: Request, error: BaseException) -> None:
        self._instruments.error.inc()
        self._instruments.errors.inc()
        if not isinstance(error, OUTSIDE):
            self._instruments.panics.inc()
        self._starts_failing(request, error)
        self.queue.add_rate_limited(request)

    def _gave_up(self, request: Request, error: TerminalError) -> None:
        self._instruments.error.inc()
        self._instruments.errors.inc()
        self._instruments.terminal_errors.inc()
        self.queue.forget(request)
        if self._failing.get(request) != str(error):
            self._failing[request] = str(error)
            log.error("reconcile.gave_up", error=str(error))

    def _timed_out(self, error: TimeoutError) -> TimeoutError:
        self._instruments.timeouts.inc()
        timed_out = TimeoutError(f"reconcile took longer than {self._timeout:g} s")
        timed_out.__cause__ = error
        return timed_out

    def _starts_failing(self, request: Request, error: BaseException) -> None:
        if request in self._failing:
            return
        self._failing[request] = str(error)
        text = str(error) or type(error).__name__
        log.error("reconcile.failing", error=text, exc_info=None if isinstance(error, (*OUTSIDE, *QUIET)) else error)

    def _works_again(self, request: Request) -> None:
        if self._failing.pop(request, None) is not None:
            log.info("reconcile.recovered")


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _cancelled(*futures: asyncio.Future[Any]) -> None:
    for future in futures:
        future.cancel()
        with suppress(asyncio.CancelledError):
            await future
