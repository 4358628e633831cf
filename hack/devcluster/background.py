"""What a cluster does between requests: renewing tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from devcluster.supervisor import PartStatus


class Background:
    """Named tasks that run until they are cancelled. One that ends by itself is a bug; it is said and stays listed."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._tasks: dict[str, asyncio.Task[Any]] = {}
        self._failures: dict[str, str] = {}

    def start(self, name: str, work: Coroutine[Any, Any, Any]) -> None:
        self._failures.pop(name, None)
        task = self._tasks[name] = asyncio.create_task(work, name=name)
        task.add_done_callback(self._ended)

    async def cancel(self, name: str) -> None:
        task = self._tasks.pop(name, None)
        self._failures.pop(name, None)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def cancel_all(self) -> None:
        for name in list(self._tasks):
            await self.cancel(name)

    def status(self) -> list[PartStatus]:
        """Those that have failed."""
        return [PartStatus(name, "ended", tail=failure) for name, failure in self._failures.items()]

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            self._failures[task.get_name()] = repr(task.exception())
            self._say(f"{task.get_name()} ended: {task.exception()!r}")
