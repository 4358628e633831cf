"""Waiting for what only looking again can tell."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


async def until(look: Callable[[], Awaitable[bool]], *, seconds: float = 20, every: float = 0.1) -> None:
    """Returns once `look` says yes; a TimeoutError after `seconds`."""
    async with asyncio.timeout(seconds):
        while True:
            if await look():
                return
            await asyncio.sleep(every)
