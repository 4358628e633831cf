"""An informer that tells what the test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from gpustack_op.api.meta import Resource
from gpustack_op.runtime.change import Change
from tests.runtime.things import THINGS, Thing, thing


class FakeSource:
    def __init__(self, *, missing: bool = False) -> None:
        self.missing = missing
        self._handlers: list[Callable[[Change[Thing]], None]] = []
        self._synced = asyncio.Event()

    @property
    def resource(self) -> Resource[Any]:
        return THINGS

    @property
    def synced(self) -> bool:
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        await self._synced.wait()

    def add_handler(self, handler: Callable[[Change[Thing]], None]) -> None:
        self._handlers.append(handler)

    def sync(self) -> None:
        self.missing = False
        self._synced.set()

    def tell(self, change: Change[Thing]) -> None:
        for handler in self._handlers:
            handler(change)

    def thing(self, name: str, version: int = 1, **more: Any) -> Thing:
        return msgspec.convert(thing(name, version, **more), Thing)
