"""Growing, jittered delays between attempts.

Guarantees   Each delay is about twice the last, up to a longest one; two clients that failed together part ways. What
             the server asked for is a lower bound, up to a cap, so that a nonsensical header stops nobody for a day.
Assumptions  The owner calls `reset` after a success that lasted.
Recovery     None needed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

LONGEST_RETRY_AFTER: Final = 60.0
"""Seconds of a Retry-After that are honoured."""

SPREAD: Final = 0.2
"""Share of a Retry-After that is added at random, since everybody was told the same."""


class Backoff:
    def __init__(
        self, *, first: float = 0.2, longest: float = 30.0, random: Callable[[], float] = random.random
    ) -> None:
        """Seconds: the defaults stay out of the way of a restart and are gentle with an outage."""
        self._first = first
        self._longest = longest
        self._random = random
        self._failures = 0

    @property
    def failures(self) -> int:
        """Attempts since the last reset."""
        return self._failures

    def next(self, at_least: float | None = None) -> float:
        """Seconds to wait now, no less than `at_least`."""
        delay = min(self._longest, self._first * 2.0 ** min(self._failures, 32)) * (0.5 + self._random() / 2)
        self._failures += 1
        if at_least is None:
            return delay
        return max(delay, min(at_least, LONGEST_RETRY_AFTER) * (1 + SPREAD * self._random()))

    def reset(self) -> None:
        self._failures = 0
