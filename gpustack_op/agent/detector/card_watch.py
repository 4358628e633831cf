"""One card, asked over and over in a thread of its own.

Guarantees   `ask` and `wait` return in time whatever the card does. A card whose call has taken longer than the limit
             hangs; it is not asked again before that call has returned.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import wait as wait_for

from gpustack_op.agent.daemon_thread import PATIENCE, DaemonThread
from gpustack_op.scheduling.device_groups import RawCard


class CardWatch:
    """`last` are the readings of the last answer that was no error, `error` is what the card answered last instead."""

    def __init__(self, name: str, read: Callable[[], RawCard], *, limit: float = PATIENCE) -> None:
        self.name = name
        self.last: RawCard | None = None
        self.error: Exception | None = None
        self._read = read
        self._limit = limit
        self._thread = DaemonThread(f"card {name}")
        self._asked: Future[RawCard] | None = None

    @property
    def hangs(self) -> bool:
        return self._thread.busy_for > self._limit

    @property
    def is_busy(self) -> bool:
        """A call is under way, however short it may be."""
        return self._asked is not None and not self._asked.done()

    @property
    def is_new(self) -> bool:
        """It has not answered yet, in whatever way."""
        return self.last is None and self.error is None

    def ask(self) -> None:
        if self._asked is None:
            self._asked = self._thread.run(self._read)

    def wait(self, seconds: float) -> None:
        """For the answer to the last question, so long and no longer."""
        if self._asked is None:
            return
        done, _ = wait_for([self._asked], max(0.0, seconds))
        if done:
            answered, self._asked = self._asked, None
            self._heard(answered)

    def close(self) -> None:
        self._thread.close()

    def _heard(self, answered: Future[RawCard]) -> None:
        error = answered.exception()
        if error is None:
            self.last, self.error = answered.result(), None
        else:
            self.error = error if isinstance(error, Exception) else RuntimeError(str(error))
