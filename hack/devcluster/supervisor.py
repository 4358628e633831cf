"""Runs the processes of one cluster and notices when one ends.

Guarantees   A part that ends unasked is named once, with the tail of its log, and stays listed until it is started
             again. A part that ends while its start is waited for fails that start at once. `stop_all` leaves no
             process, in whatever state it is called, and stops what depends on others first.
Recovery     Nothing is restarted by itself: a development cluster that mends itself hides what went wrong.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from devcluster.errors import ClusterError, PartError, UnknownPartError
from devcluster.paths import Layout
from devcluster.process import Command, Process

Ready = Callable[[Process], Awaitable[bool]]
Launch = tuple[Command, Ready]
"""How to run a part, and how to see that it is ready."""

POLL = 0.05
"""Seconds between two looks at a part that is starting."""


@dataclass(frozen=True, slots=True)
class PartStatus:
    """`pid` is None unless the part runs. `ending` and `tail` say how and why it ended, unless it was asked to."""

    part: str
    state: str
    pid: int | None = None
    seconds: float = 0.0
    ending: str = ""
    tail: str = ""


@dataclass(slots=True)
class _Part:
    command: Command
    ready: Ready
    process: Process | None = None
    watcher: asyncio.Task[None] | None = None
    ready_once: bool = False
    stopping: bool = False
    failure: PartStatus | None = None


class Supervisor:
    def __init__(self, layout: Layout, say: Callable[[str], None]) -> None:
        self._layout = layout
        self._say = say
        self._parts: dict[str, _Part] = {}
        self.ended = asyncio.Event()
        """Set when a part has ended unasked; whoever waits for it may clear it."""

    async def start(self, command: Command, ready: Ready) -> None:
        """Starts a part, again if need be, and waits until it is ready."""
        present = self._parts.get(command.part)
        if present is not None and present.process is not None and present.process.running:
            raise ClusterError(f"{command.part} runs already")
        part = self._parts[command.part] = _Part(command, ready)
        pid_file = self._layout.pids / command.part
        process = await Process.start(command, log=self._layout.log(command.part), pid_file=pid_file)
        part.process = process
        part.watcher = asyncio.create_task(self._watch(part, process), name=f"watch {command.part}")
        await self._until_ready(part, process)

    async def restart(self, name: str) -> None:
        """Stops the part if it runs, then starts it as before."""
        part = self._find(name)
        await self.stop(name)
        await self.start(part.command, part.ready)

    async def stop(self, name: str) -> None:
        part = self._find(name)
        part.stopping = True
        if part.process is not None and part.watcher is not None:
            await part.process.stop()
            await part.watcher

    async def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """As if the part had died by itself; returns when it has been noticed."""
        part = self._find(name)
        if part.process is not None and part.watcher is not None:
            part.process.signal(number)
            await part.watcher

    async def stop_all(self) -> None:
        by_stage = sorted(self._parts.values(), key=lambda part: -part.command.stage)
        for _, parts in itertools.groupby(by_stage, key=lambda part: part.command.stage):
            await asyncio.gather(*(self.stop(part.command.part) for part in parts))

    def status(self) -> list[PartStatus]:
        return [_status(part) for part in self._parts.values()]

    def running(self, name: str) -> bool:
        part = self._parts.get(name)
        return part is not None and part.process is not None and part.process.running

    async def _until_ready(self, part: _Part, process: Process) -> None:
        deadline = time.monotonic() + part.command.ready_within
        while process.running:
            if await part.ready(process):
                part.ready_once = True
                return
            if time.monotonic() > deadline:
                await self.stop(part.command.part)
                raise PartError(
                    part.command.part, f"was not ready within {part.command.ready_within:.0f} s", process.tail()
                )
            await asyncio.sleep(POLL)
        raise PartError(part.command.part, f"{process.ending} while starting", process.tail())

    async def _watch(self, part: _Part, process: Process) -> None:
        await process.wait()
        (self._layout.pids / process.part).unlink(missing_ok=True)
        if part.stopping:
            return
        part.failure = PartStatus(process.part, "ended", None, 0.0, process.ending, process.tail())
        if part.ready_once:  # before, whoever waits for its start says it
            self._say(f"{process.part} {process.ending}; its last lines:\n{part.failure.tail}")
        self.ended.set()

    def _find(self, name: str) -> _Part:
        if name not in self._parts:
            raise UnknownPartError(f"no part is named {name}; there are {', '.join(self._parts) or 'none'}")
        return self._parts[name]


def _status(part: _Part) -> PartStatus:
    process = part.process
    if process is not None and process.running:
        return PartStatus(part.command.part, "running", process.pid, time.time() - process.started_at)
    return part.failure or PartStatus(part.command.part, "stopped")
