"""Containers as child processes.

Guarantees   A process sees the environment it was given and nothing of ours, leads a group of its own, and is killed
             by the kernel when the runtime dies. When it ends, its whole group does. Its exit code is what a container
             runtime would tell: 128 and the signal's number when it was killed.
Assumptions  Linux. Images are not pulled: what runs is a program of this machine.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import msgspec

from devcluster.containers.interface import Snapshot, Specification, StartError, State
from devcluster.process import die_with

LONGEST_WAIT: Final = 20.0
"""Seconds after which a snapshot is given though nothing has changed."""


@dataclass(slots=True)
class _Container:
    state: State
    process: asyncio.subprocess.Process
    watcher: asyncio.Task[None] | None = None
    killer: asyncio.TimerHandle | None = None

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


class ProcessRuntime:
    def __init__(self) -> None:
        self._containers: dict[str, _Container] = {}
        self._version = 0
        self._changed = asyncio.Condition()

    async def start(self, specification: Specification) -> None:
        if specification.id in self._containers:
            return
        process = await _spawn(specification)
        state = State(
            id=specification.id,
            node=specification.node,
            pod=specification.pod,
            container=specification.container,
            attempt=specification.attempt,
            log=specification.log,
            started_at=time.time(),
        )
        container = self._containers[specification.id] = _Container(state, process)
        container.watcher = asyncio.create_task(self._watch(container))
        await self._change()

    async def stop(self, container: str, grace: float) -> None:
        found = self._containers.get(container)
        if found is None or not found.state.running:
            return
        found.signal(signal.SIGTERM)
        kill_at = asyncio.get_running_loop().time() + grace
        if found.killer is None or kill_at < found.killer.when():
            if found.killer is not None:
                found.killer.cancel()
            found.killer = asyncio.get_running_loop().call_at(kill_at, found.signal, signal.SIGKILL)

    async def remove(self, containers: Sequence[str]) -> None:
        for name in containers:
            found = self._containers.pop(name, None)
            if found is not None:
                found.signal(signal.SIGKILL)
        await self._change()

    async def snapshot(self, node: str, after: int = -1) -> Snapshot:
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_WAIT), self._changed:
                await self._changed.wait_for(lambda: self._version > after)
        states = [each.state for each in self._containers.values() if each.state.node == node]
        return Snapshot(self._version, states)

    async def close(self) -> None:
        """Kills everything."""
        containers = list(self._containers.values())
        for container in containers:
            container.signal(signal.SIGKILL)
        await asyncio.gather(*(container.watcher for container in containers if container.watcher is not None))

    async def _watch(self, container: _Container) -> None:
        code = await container.process.wait()
        if container.killer is not None:
            container.killer.cancel()
        container.signal(signal.SIGKILL)
        container.state = msgspec.structs.replace(
            container.state, finished_at=time.time(), exit_code=128 - code if code < 0 else code
        )
        await self._change()

    async def _change(self) -> None:
        async with self._changed:
            self._version += 1
            self._changed.notify_all()


async def _spawn(specification: Specification) -> asyncio.subprocess.Process:
    try:
        with open(specification.log, "ab") as log:  # noqa: ASYNC230  # opening a local file does not wait
            return await asyncio.create_subprocess_exec(
                *specification.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=specification.environment,
                cwd=specification.directory,
                start_new_session=True,
                preexec_fn=die_with(os.getpid()),
            )
    except (OSError, ValueError) as error:
        raise StartError(str(error)) from error
