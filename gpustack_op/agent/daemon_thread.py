"""A thread for calls that may never return.

Guarantees   Calls run one after another. A call that hangs holds up nobody else, and does not keep the program from
             ending, unlike a thread of an executor.
Assumptions  Nobody needs a call to be taken back: one that has begun runs to its end, if it has one.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic
from typing import Any, Final, TypeVar

T = TypeVar("T")

PATIENCE: Final = 5.0
"""Seconds that one call to a vendor's library may take: they answer in milliseconds, or hang for good."""

_present = threading.local()


def beat() -> None:
    """Said before each of the library's calls, so that many short ones are not taken for one that hangs."""
    thread = getattr(_present, "thread", None)
    if isinstance(thread, DaemonThread):
        thread.begin()


class DaemonThread:
    """Starts with the first call."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._begun: float | None = None

    @property
    def busy_for(self) -> float:
        """Seconds since the present call began; 0 when there is none."""
        begun = self._begun
        return 0.0 if begun is None else monotonic() - begun

    def run(self, function: Callable[[], T]) -> Future[T]:
        call: Future[T] = Future()
        self._calls.put((call, function))
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        return call

    async def within(self, function: Callable[[], T], patience: float) -> T:
        """The answer, or a TimeoutError; a call that has not begun by then never does."""
        return await asyncio.wait_for(asyncio.wrap_future(self.run(function)), patience)

    def close(self) -> None:
        """The thread ends after what it was given."""
        self._calls.put(None)

    def begin(self) -> None:
        self._begun = monotonic()

    def _work(self) -> None:
        _present.thread = self
        while (given := self._calls.get()) is not None:
            call, function = given
            if not call.set_running_or_notify_cancel():
                continue
            self.begin()
            try:
                call.set_result(function())
            except BaseException as error:
                call.set_exception(error)
            finally:
                self._begun = None
            del given, call, function
