"""Tells people what happened to an object, as Events of events.k8s.io/v1.

Guarantees   `event` never waits and never fails: a full queue, a filter or a refusal costs the event, not the
             reconcile. Equal events within `SERIES_WINDOW` become one Event with a growing count, written at most once
             in `SERIES_INTERVAL` after the first repetition. An object gets `BURST` different events at once and one
             every `REFILL` seconds after that.
Assumptions  Notes name the object, the field, the value and the remedy, and hold no figure that changes every time:
             each different note is an event of its own.
Recovery     Connection loss and server failures are tried again a few times. That events are refused is logged once,
             and once when they are accepted again. An Event that has expired is made anew.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar
from uuid import uuid4

from gpustack_op.api.meta import KubeObject, Resource
from gpustack_op.runtime.clock import WallClock, elapsed, micro_time, wall_clock
from gpustack_op.runtime.errors import NETWORK_ERRORS, AlreadyExists, ApiError, NotFound
from gpustack_op.runtime.event_objects import (
    EVENTS,
    ObjectReference,
    Occurrence,
    Type,
    event_body,
    event_name,
    reference,
)
from gpustack_op.runtime.logging import logger
from gpustack_op.runtime.metrics import Metrics
from gpustack_op.runtime.rate_limits import TokenBucket

T = TypeVar("T", bound=KubeObject)

QUEUE_SIZE = 1000
"""Events waiting to be written; more are dropped, since an event that comes late helps nobody."""

SERIES_WINDOW = 360.0
"""Seconds without a repetition after which the same event starts a new series; client-go's."""

SERIES_INTERVAL = 30.0
"""Seconds between two writes of one growing count."""

BURST, REFILL = 25.0, 300.0
"""Spam filter of one object; client-go's."""

REMEMBERED = 4096
"""Series and objects remembered; the longest unused are forgotten first."""

RETRY_DELAYS = (1.0, 2.0, 4.0)
"""Seconds between attempts to write one event."""

log = logger("events")


class Connection(Protocol):
    """The part of a client that a recorder needs."""

    async def create(self, resource: Resource[T], body: Mapping[str, Any], *, namespace: str = "") -> T: ...
    async def merge_patch(
        self, resource: Resource[T], name: str, patch: Mapping[str, Any], *, namespace: str = ""
    ) -> T: ...


@dataclass(slots=True)
class _Series:
    occurrence: Occurrence
    name: str
    started: str
    last: str
    last_at: float
    count: int = 1
    created: bool = False
    written: int = 0
    written_at: float = 0.0
    queued: bool = False
    timer: asyncio.TimerHandle | None = None


class Recorder:
    """Takes events from reconcilers and writes them in the background. Add it to the manager as a runnable.

    controller  who reports, a qualified name such as `gpustack.ai/operator`.
    instance    which process: its identity or host name, of any length.
    """

    name = "events"

    def __init__(
        self,
        client: Connection,
        *,
        controller: str,
        instance: str,
        metrics: Metrics | None = None,
        clock: WallClock = wall_clock,
        queue_size: int = QUEUE_SIZE,
    ) -> None:
        self._client = client
        self._controller, self._instance = controller, instance
        self._clock = clock
        self._queue: asyncio.Queue[_Series] = asyncio.Queue(queue_size)
        self._series: OrderedDict[Occurrence, _Series] = OrderedDict()
        self._buckets: OrderedDict[ObjectReference, TokenBucket] = OrderedDict()
        self._refused = False
        self._outcomes = (metrics or Metrics()).counter(
            "gpustack_events_total", "Events by what became of them.", ("outcome",)
        )

    def event(
        self,
        regarding: KubeObject | ObjectReference,
        type_: Type,
        reason: str,
        message: str,
        *,
        action: str,
        resource: Resource[Any] | None = None,
    ) -> None:
        """Record that something happened to an object.

        The kind of a cached object is told by `resource`, else by the name of its projection, which bears the kind's.
        """
        if isinstance(regarding, KubeObject):
            regarding = reference(regarding, resource)
        self._record(Occurrence(regarding, type_, reason, action, message))

    async def run(self, stop: asyncio.Event) -> None:
        """Write until `stop`, then write what is queued."""
        stopping = asyncio.create_task(self._close(stop))
        try:
            while (series := await self._queue.get()) is not _END:
                series.queued = False
                await self._write(series, retry=not stop.is_set())
        finally:
            stopping.cancel()

    def _record(self, occurrence: Occurrence) -> None:
        now = elapsed()
        series = self._series.get(occurrence)
        if series is not None and now - series.last_at <= SERIES_WINDOW:
            self._repeat(series, now)
        elif self._allowed(occurrence.regarding, now):
            self._begin(occurrence, now)
        else:
            self._outcomes.labels(outcome="filtered").inc()

    def _begin(self, occurrence: Occurrence, now: float) -> None:
        time = micro_time(self._clock())
        name = event_name(occurrence.regarding, uuid4().hex[:16])
        series = _Series(occurrence, name, time, time, now)
        if self._enqueue(series):
            _remember(self._series, occurrence, series)

    def _repeat(self, series: _Series, now: float) -> None:
        series.count += 1
        series.last, series.last_at = micro_time(self._clock()), now
        self._series.move_to_end(series.occurrence)
        if series.queued or series.timer is not None:
            return
        wait = series.written_at + SERIES_INTERVAL - now if series.written > 1 else 0.0
        if wait <= 0:
            self._enqueue(series)
        else:
            series.timer = asyncio.get_running_loop().call_later(wait, self._due, series)

    def _due(self, series: _Series) -> None:
        series.timer = None
        self._enqueue(series)

    def _enqueue(self, series: _Series) -> bool:
        try:
            self._queue.put_nowait(series)
        except asyncio.QueueFull:
            self._outcomes.labels(outcome="dropped").inc()
            return False
        series.queued = True
        return True

    def _allowed(self, regarding: ObjectReference, now: float) -> bool:
        bucket = self._buckets.get(regarding) or TokenBucket(rate=1 / REFILL, burst=BURST)
        _remember(self._buckets, regarding, bucket)
        return bucket.allow(now)

    async def _close(self, stop: asyncio.Event) -> None:
        await stop.wait()
        await self._queue.put(_END)

    async def _write(self, series: _Series, *, retry: bool) -> None:
        for delay in (*(RETRY_DELAYS if retry else ()), None):
            try:
                await self._write_once(series)
            except (ApiError, *NETWORK_ERRORS) as error:
                if delay is None or not _passing(error):
                    self._lose(series, error)
                    return
                await asyncio.sleep(delay)
            else:
                self._accepted()
                return

    async def _write_once(self, series: _Series) -> None:
        count = series.count
        if series.created:
            try:
                await self._write_count(series, count)
            except NotFound:  # expired; people want to see it again
                series.created, series.name = False, event_name(series.occurrence.regarding, uuid4().hex[:16])
        if not series.created:
            await self._create(series)
            if count > 1:
                await self._write_count(series, count)
        series.written, series.written_at = count, elapsed()

    async def _create(self, series: _Series) -> None:
        body = event_body(
            series.occurrence,
            name=series.name,
            time=series.started,
            controller=self._controller,
            instance=self._instance,
        )
        with suppress(AlreadyExists):  # names are unique: it is this very event, whose answer was lost
            await self._client.create(EVENTS, body, namespace=series.occurrence.regarding.event_namespace)
        series.created = True

    async def _write_count(self, series: _Series, count: int) -> None:
        patch = {"series": {"count": count, "lastObservedTime": series.last}}
        namespace = series.occurrence.regarding.event_namespace
        await self._client.merge_patch(EVENTS, series.name, patch, namespace=namespace)

    def _accepted(self) -> None:
        self._outcomes.labels(outcome="sent").inc()
        if self._refused:
            self._refused = False
            log.info("events.accepted_again")

    def _lose(self, series: _Series, error: Exception) -> None:
        self._outcomes.labels(outcome="refused").inc()
        if not series.created:
            self._series.pop(series.occurrence, None)
        if not self._refused:
            self._refused = True
            log.warning("events.refused", error=str(error))


_NOTHING = Occurrence(ObjectReference("", "", ""), "Normal", "", "", "")
_END = _Series(_NOTHING, "", "", "", 0.0)


def _passing(error: Exception) -> bool:
    """Whether the same write may go through a little later."""
    return not isinstance(error, ApiError) or error.status == 429 or error.status >= 500


K = TypeVar("K")
V = TypeVar("V")


def _remember(table: OrderedDict[K, V], key: K, value: V) -> None:
    table[key] = value
    table.move_to_end(key)
    if len(table) > REMEMBERED:
        table.popitem(last=False)
