"""Connections of this process. One that is cut off says good-bye after its client has closed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path


@asynccontextmanager
async def all_closed() -> AsyncIterator[None]:
    """The event loop lives on until no connection is open that was opened in the block."""
    before = _sockets()
    yield
    for _ in range(1000):
        if _sockets() <= before:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("connections are still open after 10 s")


def _sockets() -> set[str]:
    """By inode."""
    links = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            links.append(os.readlink(descriptor))
    return {link for link in links if link.startswith("socket:")}
