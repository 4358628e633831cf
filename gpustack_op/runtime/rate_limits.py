"""How long a failing key waits, and how fast all of them together may come back.

Guarantees   A key's delay doubles with each failure from `base` to `cap` and starts anew after `forget`.
             `TokenBucket` lets `burst` through at once and `rate` a second thereafter, and says how long the next one
             waits.
Assumptions  The caller brings the time, always from the same monotonic clock.
Recovery     None needed: both are plain arithmetic.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class KeyBackoff:
    """Delay of one key.

    base  default 5 ms: a lost race is retried before anybody notices. Danger: 0 is a hot loop.
    cap   default 30 s: what fails because another program is away comes back within half a minute of it. Danger: long
          caps make recovery look like a hang, short ones load an API server that is already in trouble.
    """

    base: float = 0.005
    cap: float = 30.0

    def delay(self, failures: int) -> float:
        """Seconds to wait after that many failures in a row, at least one."""
        return min(self.cap, self.base * 2.0 ** min(failures - 1, 62))


@dataclass(slots=True)
class TokenBucket:
    """Overall limit.

    rate   default 10 a second, as client-go. Danger: low values delay the retry of every other key.
    burst  default 100 at once, as client-go.
    """

    rate: float = 10.0
    burst: float = 100.0
    _tokens: float = field(default=0.0, init=False)
    _at: float | None = field(default=None, init=False)

    def reserve(self, now: float) -> float:
        """Take a token, perhaps one of the future; seconds until it is there."""
        self._refill(now)
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self.rate)

    def allow(self, now: float) -> bool:
        """Take a token only if one is there now."""
        self._refill(now)
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def _refill(self, now: float) -> None:
        earned = self.burst if self._at is None else (now - self._at) * self.rate
        self._tokens = min(self.burst, self._tokens + earned)
        self._at = now


class FailureCounts(Generic[K]):
    """Failures in a row by key; holds only keys that fail at present."""

    def __init__(self) -> None:
        self._counts: dict[K, int] = {}

    def fail(self, key: K) -> int:
        self._counts[key] = self._counts.get(key, 0) + 1
        return self._counts[key]

    def forget(self, key: K) -> None:
        self._counts.pop(key, None)

    def of(self, key: K) -> int:
        return self._counts.get(key, 0)
