"""Waiting for a cluster to come to a state, by looking at it again and again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

T = TypeVar("T")

LOOK_AGAIN: Final = 0.15
"""Seconds between two looks."""


async def eventually(
    look: Callable[[], Awaitable[T]],
    expected: object = None,
    *,
    when: Callable[[T], object] = bool,
    within: float = 20,
) -> T:
    """What was seen when it was as `expected`, or when `when` held. What was seen last is in the failure."""
    deadline = time.monotonic() + within
    while True:
        seen = await look()
        if (seen == expected) if expected is not None else when(seen):
            return seen
        if time.monotonic() > deadline:
            wanted = "" if expected is None else f"\nexpected: {expected!r}"
            raise AssertionError(f"not so within {within} s; last seen: {seen!r}{wanted}")
        await asyncio.sleep(LOOK_AGAIN)
