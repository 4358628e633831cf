"""Mirrors one collection of objects: the list, then everything that happens to it.

Guarantees   The sink sees every object that stays, its latest state, in order for each object. A list is given whole
             or not at all. After a gap it resumes from the last version, or lists again where that is too old, and a
             deletion in the gap is found by the list. No failure ever reaches the caller: repeats wait longer each
             time, no less than the server asked, and one line is logged when it keeps failing and one when it works.
Assumptions  Versions are opaque, but for telling whether they go back. Intermediate states may be skipped. The server
             sends a bookmark about every minute.
Recovery     410 as an answer or inside the stream: list again, at once the first time. A connection without a byte
             for longer than two bookmarks: given up; if it never said anything its version may be one that the server
             has yet to reach after a restore, so list again. Versions that go back: tell everybody, and list again. A
             kind that is not served: ask every few seconds. A server that cannot stream lists: pages. An object that
             cannot be decoded: hand it to the sink as such and go on.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from gpustack_op.api.meta import KubeObject, PartialObject, Resource
from gpustack_op.runtime.backoff import Backoff
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.decode import Bookmark, Codec, Event, Failure, Undecodable
from gpustack_op.runtime.errors import ApiError, MalformedAnswer, error_from_status
from gpustack_op.runtime.listing import Listing
from gpustack_op.runtime.logging import logger
from gpustack_op.runtime.paths import collection_path
from gpustack_op.runtime.remedies import (
    BrokeOffError,
    Progress,
    Remedy,
    StreamingRefusedError,
    VersionsWentBackError,
    remedy,
)
from gpustack_op.runtime.selector import Selector
from gpustack_op.runtime.versions import goes_back

T = TypeVar("T", bound=KubeObject)

log = logger("reflector")


class Sink(Protocol[T]):
    """Who is told; see `Informer`."""

    async def replace(self, listing: Listing[T]) -> None: ...
    def put(self, obj: T) -> None: ...
    def remove(self, obj: KubeObject) -> None: ...
    def bookmark(self, version: str) -> None: ...
    def damaged(self, damaged: Undecodable) -> None: ...
    def mark_missing(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds."""

    shortest_watch: float = 300.0
    longest_watch: float = 600.0
    """A watch is asked for a time between these at random, so that all watches do not end together."""

    slack: float = 15.0
    """How much longer than the server the reader waits for the end."""

    silence: float = 130.0
    """Two bookmarks, and some: a connection that says nothing for so long is dead."""

    steady: float = 5.0
    """A watch that has lasted so long works; the next failure starts with short delays again."""

    missing: float = 3.0
    """Between looks for a kind that is not served."""


DEFAULT_TIMING: Final = Timing()


class Reflector(Generic[T]):
    def __init__(  # noqa: PLR0913  # wiring, done in one place
        self,
        client: Client,
        resource: Resource[T],
        selector: Selector,
        codec: Codec[T],
        sink: Sink[T],
        *,
        went_back: Callable[[], None] = lambda: None,
        timing: Timing = DEFAULT_TIMING,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Callable[[], float] = random.random,
    ) -> None:
        """`went_back` tells all other mirrors of the same server to `restart`."""
        self._client = client
        self._resource = resource
        self._selector = selector
        self._path = collection_path(resource, selector.namespace)
        self._codec = codec
        self._sink = sink
        self._went_back = went_back
        self._timing = timing
        self._sleep = sleep
        self._random = random
        self._backoff = Backoff(random=random)
        self._interrupt: Callable[[], None] | None = None
        self._steady: asyncio.TimerHandle | None = None
        self._version = ""
        self._latest = ""
        self._listing: Listing[T] | None = None
        self._streams = True
        self._stream_broke = False
        self._progress = Progress()
        self._failing = False
        self._missing = False

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            delay = await self._turn()
            if delay > 0:
                await self._sleep(delay)

    def restart(self) -> None:
        """Lists again now, whatever the versions say."""
        self._version = self._latest = ""
        if self._interrupt is not None:
            self._interrupt()

    # --- one turn: a list, or a watch, or both in one

    async def _turn(self) -> float:
        """Returns the seconds to wait before the next."""
        self._progress = Progress()
        try:
            await self._interruptible()
            return 0.0
        except Exception as error:
            return self._failed(error)
        finally:
            self._listing = None
            if self._steady is not None:
                self._steady.cancel()

    async def _interruptible(self) -> None:
        """Ends early, as if all had gone well, when somebody calls for a restart."""
        loop = asyncio.get_running_loop()
        scope = asyncio.timeout(None)
        try:
            async with scope:
                self._interrupt = lambda: scope.reschedule(loop.time())
                await self._attempt()
        except TimeoutError:
            if not scope.expired():
                raise
        finally:
            self._interrupt = None

    async def _attempt(self) -> None:
        if self._version:
            await self._watch({"resourceVersion": self._version})
        elif self._streams and not self._stream_broke:
            self._listing = Listing()
            await self._watch({"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"})
        else:
            await self._list()

    async def _list(self) -> None:
        listing: Listing[T] = Listing()
        async for body in self._client.pages(self._path, self._selector):
            listing.add_page(self._codec.page(body))
        self._stream_broke = False
        await self._complete(listing)

    async def _complete(self, listing: Listing[T]) -> None:
        if goes_back(listing.version, self._latest):
            raise VersionsWentBackError(f"from {self._latest} to {listing.version}")
        self._version = self._latest = listing.version
        await self._sink.replace(listing)
        self._found()

    async def _watch(self, how: dict[str, str]) -> None:
        timing = self._timing
        started = asyncio.get_running_loop().time()
        seconds = timing.shortest_watch + self._random() * (timing.longest_watch - timing.shortest_watch)
        params = {**how, "allowWatchBookmarks": "true", "timeoutSeconds": str(int(seconds)), **self._selector.query}
        async with self._client.watch(
            self._path, params, total=seconds + timing.slack, silence=timing.silence
        ) as batches:
            self._progress.opened = True
            if self._listing is None:
                self._works_from_now()
            async for lines in batches:
                self._progress.heard = True
                for line in lines:
                    await self._line(line)
        if self._listing is not None or asyncio.get_running_loop().time() - started < timing.steady:
            raise BrokeOffError("the server ended the watch early")

    # --- one line of a watch

    async def _line(self, line: bytes) -> None:
        try:
            event = self._codec.event(line)
        except MalformedAnswer as error:
            event = Undecodable(str(error), PartialObject())
        if isinstance(event, Event):
            self._happened(event)
        elif isinstance(event, Undecodable):
            self._undecodable(event)
        elif isinstance(event, Bookmark):
            await self._bookmark(event)
        else:
            raise _error_of(event)

    def _happened(self, event: Event[T]) -> None:
        if self._listing is not None:
            self._listing.add_event(event)
            return
        self._advance(event.object.metadata.resource_version)
        if event.type == "DELETED":
            self._sink.remove(event.object)
        else:
            self._sink.put(event.object)

    def _undecodable(self, damaged: Undecodable) -> None:
        if self._listing is not None:
            self._listing.add_undecodable(damaged)
            return
        self._advance(damaged.known.metadata.resource_version)
        self._sink.damaged(damaged)

    async def _bookmark(self, bookmark: Bookmark) -> None:
        listing, self._listing = self._listing, None
        if listing is None:
            self._advance(bookmark.version)
            self._sink.bookmark(bookmark.version)
        elif bookmark.ends_list:
            listing.version = bookmark.version
            await self._complete(listing)
            self._works_from_now()
        else:
            raise StreamingRefusedError("a bookmark came before the list was whole")

    def _advance(self, version: str) -> None:
        if not version:
            return
        if goes_back(version, self._version):
            raise VersionsWentBackError(f"from {self._version} to {version}")
        self._version = self._latest = version

    # --- what went wrong, and how long to wait

    def _failed(self, error: Exception) -> float:
        self._progress.listing = self._listing is not None
        what = remedy(error, self._progress)
        if what is Remedy.AWAIT_KIND:
            return self._not_served()
        if what is Remedy.USE_PAGES:
            self._streams = False
            return 0.0
        if what is Remedy.LIST_EVERYTHING:
            self._latest = ""
            self._went_back()
        if what is not Remedy.RESUME:
            self._version = ""
        self._stream_broke = self._progress.listing and self._progress.opened
        return self._delay(error, at_once=what is not Remedy.RESUME)

    def _delay(self, error: Exception, *, at_once: bool) -> float:
        """`at_once` skips the first delay. One failure alone is nothing to talk of; the next one is."""
        first = self._backoff.failures == 0
        delay = self._backoff.next(error.retry_after if isinstance(error, ApiError) else None)
        if not first and not self._failing:
            self._failing = True
            log.warning("watch.failing", kind=str(self._resource), error=str(error) or type(error).__name__)
        return 0.0 if first and at_once else delay

    def _not_served(self) -> float:
        self._version = ""
        if not self._missing:
            self._missing = True
            log.info("kind.missing", kind=str(self._resource))
        self._sink.mark_missing()
        return self._timing.missing * (0.8 + 0.4 * self._random())

    def _found(self) -> None:
        if self._missing:
            self._missing = False
            log.info("kind.served", kind=str(self._resource))

    def _works_from_now(self) -> None:
        self._steady = asyncio.get_running_loop().call_later(self._timing.steady, self._settled)

    def _settled(self) -> None:
        """The present turn has lasted."""
        self._backoff.reset()
        if self._failing:
            self._failing = False
            log.info("watch.recovered", kind=str(self._resource))


def _error_of(failure: Failure) -> ApiError:
    status: dict[str, Any] = failure.status
    return error_from_status(status)
