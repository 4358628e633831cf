"""Which requests are worth repeating, and for how long.

Guarantees   Throttled requests are always repeated: they were not carried out. After a lost answer or a server's failure only
             those are repeated that may be carried out twice, and creates that carry a name, whose second answer would be
             AlreadyExists. All attempts together stay within one budget of time.
Assumptions  A reconcile that gave up is queued again with its own back-off, so giving up is cheap.
Recovery     When the budget is spent the last error is raised as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

import aiohttp

from gpustack_op.runtime.errors import ApiError, InternalError, ServerTimeout, ServiceUnavailable, TooManyRequests

BUDGET: Final = 30.0
"""Seconds that one call may take with all its attempts: half of a reconcile's usual timeout."""


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
