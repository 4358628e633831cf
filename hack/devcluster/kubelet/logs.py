"""What a container has printed, for `kubectl logs`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

POLL: Final = 0.1
"""Seconds between two looks for more."""

CHUNK: Final = 64 * 1024


async def read(file: Path, *, tail: int | None, follow: bool, running: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The last `tail` lines, or all. With `follow` also what comes while the container is `running`."""
    position = 0 if tail is None else await asyncio.to_thread(_start_of_tail, file, tail)
    while True:
        was_running = running()
        data = await asyncio.to_thread(_read, file, position)
        position += len(data)
        if data:
            yield data
        elif follow and was_running:
            await asyncio.sleep(POLL)
        else:
            return


def _read(file: Path, position: int) -> bytes:
    try:
        with file.open("rb") as opened:
            opened.seek(position)
            return opened.read(CHUNK)
    except FileNotFoundError:
        return b""


def _start_of_tail(file: Path, lines: int) -> int:
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return 0
    ends = [index for index, byte in enumerate(content[:-1]) if byte == 0x0A]
    if lines == 0:
        return len(content)
    return ends[-lines] + 1 if len(ends) >= lines else 0
