"""A plan of work that is done as much at once as its order allows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any


class Steps:
    """Each step begins as soon as the steps it comes after are done; leaving the block waits for all.

    Guarantees   The first failure ends what runs, begins nothing more, and is raised as it is.
    """

    def __init__(self) -> None:
        self._group = asyncio.TaskGroup()

    async def __aenter__(self) -> Steps:
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._group.__aexit__(kind, error, trace)
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None

    def add(
        self,
        work: Callable[..., Coroutine[Any, Any, Any]],
        *arguments: Any,
        after: Sequence[asyncio.Task[Any]] = (),
    ) -> asyncio.Task[Any]:
        async def step() -> None:
            if after:
                await asyncio.wait(after)
            if all(not task.cancelled() and task.exception() is None for task in after):
                await work(*arguments)

        return self._group.create_task(step())
