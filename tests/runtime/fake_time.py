"""An event loop whose clock jumps to the next timer instead of waiting for it.

Everything that waits by the loop (sleep, timeouts, timers) works unchanged and takes no time; a day passes as fast as
its timers can run. Nothing that really waits for the outside world belongs in such a test.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

P = ParamSpec("P")

STUCK_AFTER = 10.0
"""Real seconds to wait for another thread when no timer is left, before the test counts as stuck."""


class FakeTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._now = 1000.0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self._now

    def jump(self, seconds: float) -> None:
        """Time passes without the loop running, as when it is blocked."""
        self._now += seconds


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop: FakeTimeLoop) -> None:
        super().__init__()
        self._fake_loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is not None:
            self._fake_loop.jump(timeout)
            return []
        ready = super().select(STUCK_AFTER)
        if not ready:
            raise RuntimeError("nothing can ever happen again: no timer, no input")
        return ready


def in_fake_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        troubles: list[Any] = []
        with asyncio.Runner(loop_factory=FakeTimeLoop) as runner:
            runner.get_loop().set_exception_handler(lambda _loop, context: troubles.append(context))
            runner.run(test(*args, **kwargs))
        assert troubles == [], "a timer or a forgotten task failed"

    return run


def now() -> float:
    return asyncio.get_running_loop().time()


def block_loop(seconds: float) -> None:
    """As if the loop had been kept busy for so long."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, FakeTimeLoop)
    loop.jump(seconds)


async def settle() -> None:
    """Let everything run that can run now."""
    for _ in range(20):
        await asyncio.sleep(0)
