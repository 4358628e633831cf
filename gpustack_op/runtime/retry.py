"""Which requests are worth repeating, and for how long.

Guarantees   Throttled requests are always repeated: they were not carried out. After a lost answer or a server's
             failure only those are repeated that may be carried out twice, and creates that carry a name, whose
             second answer would be AlreadyExists. All attempts together stay within one budget of time.
Assumptions  A reconcile that gave up is queued again with its own back-off, so giving up is cheap.
Recovery     When the budget is spent the last error is raised as it is.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import Enum
from typing import Final

import aiohttp

from gpustack_op.runtime.backoff import Backoff
from gpustack_op.runtime.errors import (
    AlreadyExists,
    ApiError,
    InternalError,
    ServerTimeout,
    ServiceUnavailable,
    TooManyRequests,
)

BUDGET: Final = 30.0
"""Seconds that one call may take with all its attempts: half of a reconcile's usual timeout."""


ATTEMPT: Final = 15.0
"""Seconds for one attempt, so that a hung connection leaves time for another; longer than any admission takes here."""


class Repeatable(Enum):
    """What carrying a request out twice would do."""

    ALWAYS = "same outcome"
    NAMED_CREATE = "AlreadyExists, which the caller can tell"
    NEVER = "something else"


@dataclass(frozen=True, slots=True)
class Verdict:
    retry: bool
    answer_lost: bool = False
    """Whether the failed attempt may have been carried out."""


def judge(error: Exception, repeatable: Repeatable) -> Verdict:
    if isinstance(error, TooManyRequests | aiohttp.ClientConnectorError):
        return Verdict(retry=not isinstance(error, aiohttp.ClientConnectorCertificateError))
    if isinstance(error, ApiError):
        failed = isinstance(error, InternalError | ServiceUnavailable | ServerTimeout)
        return Verdict(retry=failed and repeatable is not Repeatable.NEVER, answer_lost=failed)
    return Verdict(retry=repeatable is not Repeatable.NEVER, answer_lost=True)


class Attempts:
    """The attempts of one call."""

    def __init__(self, repeatable: Repeatable, *, budget: float = BUDGET) -> None:
        self._repeatable = repeatable
        self._budget = budget
        self._started = time.monotonic()
        self._waited = 0.0
        self._backoff = Backoff(first=0.1, longest=5.0)
        self._answer_lost = False

    @property
    def left(self) -> float:
        """Seconds for all that is still to come. Delays count in full, also where a test does not really wait."""
        return self._budget - max(self._waited, time.monotonic() - self._started)

    def delay_after(self, error: Exception) -> float | None:
        """Seconds to wait before the next attempt; None when this error is final."""
        if isinstance(error, AlreadyExists):
            error.perhaps_ours = self._answer_lost
        verdict = judge(error, self._repeatable)
        delay = self._backoff.next(error.retry_after if isinstance(error, ApiError) else None)
        if not verdict.retry or delay >= self.left:
            return None
        self._answer_lost = self._answer_lost or verdict.answer_lost
        self._waited += delay
        return delay
