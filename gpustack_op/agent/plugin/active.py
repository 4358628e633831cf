"""Lets one agent of a node be the active one.

Guarantees   The lock goes with the process that holds it, however it ends. Whoever waits takes over within `PERIOD`
             seconds: a node's cards are on offer again before its status is told the next time.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path
from typing import Final

from gpustack_op.runtime.logging import logger

FILE: Final = "agent.lock"

PERIOD: Final = 0.1

log = logger("active")


class ActiveLock:
    def __init__(self, folder: Path, *, period: float = PERIOD) -> None:
        self._path = folder / FILE
        self._period = period
        self._file: int | None = None

    @property
    def is_held(self) -> bool:
        return self._file is not None

    async def acquire(self, stop: asyncio.Event) -> bool:
        """Waits until this process is the active one; False when it is stopped before."""
        told = ""
        while not stop.is_set():
            problem = self._tried()
            if not problem:
                return True
            if problem != told:
                log.info("agent.waits", lock=str(self._path), why=problem)
                told = problem
            try:
                await asyncio.wait_for(stop.wait(), self._period)
            except TimeoutError:
                continue
        return False

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _tried(self) -> str:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            return f"{error.strerror}; make the folder writable"
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            return "another agent of this node is active"
        self._file = file
        return ""
