"""Tells everybody who waits that something has changed.

Guarantees   A change between two waits is not missed: whoever waits says up to where it has read.
"""

from __future__ import annotations

import asyncio


class News:
    def __init__(self) -> None:
        self.number = 0
        self._changed = asyncio.Event()

    def tell(self) -> None:
        self.number += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def after(self, number: int) -> int:
        """Returns the present number once it is another than this."""
        while self.number == number:
            await self._changed.wait()
        return self.number
