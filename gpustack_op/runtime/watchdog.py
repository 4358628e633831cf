"""Ends the process when leadership has run out, even if the event loop does not run.

Guarantees   A loop that was blocked past the renew deadline never gets to write again.
Assumptions  The event loop's clock is the system's monotonic one.
Recovery     None: the process is gone and its replica starts anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic

PAUSE = 0.5
"""Seconds between two looks; with it, work ends well before a lease of 15 s can be taken."""


class Watchdog:
    """`leads_until` is asked from a thread; `expired` is called there, once."""

    def __init__(
        self,
        leads_until: Callable[[], float | None],
        expired: Callable[[], None],
        *,
        clock: Callable[[], float] = monotonic,
        pause: float = PAUSE,
    ) -> None:
        self._leads_until = leads_until
        self._expired = expired
        self._clock = clock
        self._pause = pause
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="lease-watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stopped.wait(self._pause):
            until = self._leads_until()
            if until is not None and self._clock() > until + self._pause:
                self._expired()
                return
