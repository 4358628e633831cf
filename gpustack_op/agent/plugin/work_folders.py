"""Takes away the work folders of slices whose Pods are gone, and has the books looked at from time to time.

Guarantees   A folder goes after its Pod was missing in `PASSES` passes in a row; what else lies in the Pod's folder
             stays. What cannot be removed is tried again.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

PASSES: Final = 3

RESYNC: Final = 30.0
"""Seconds between two passes: the kubelet tells nobody of what it forgets."""


class WorkFolders:
    """`pods` is the folder that has one for each Pod, by UID."""

    def __init__(self, pods: Path) -> None:
        self._pods = pods
        self._misses: dict[str, int] = {}

    def collect(self, living: Collection[str]) -> None:
        there = {folder.name for folder in self._pods.glob("*") if folder.is_dir()}
        self._misses = {uid: self._misses.get(uid, 0) + 1 for uid in there - set(living)}
        for uid, misses in self._misses.items():
            if misses >= PASSES:
                self._remove(self._pods / uid)

    def _remove(self, folder: Path) -> None:
        for container in folder.glob("c-*"):
            shutil.rmtree(container / "tmp", ignore_errors=True)
            with suppress(OSError):
                container.rmdir()
        with suppress(OSError):
            folder.rmdir()


class Upkeep:
    """`living` are the UIDs of the node's Pods; None while they are not known, or another agent is the active one."""

    name = "upkeep"

    def __init__(
        self,
        folders: WorkFolders,
        living: Callable[[], Collection[str] | None],
        wake: Callable[[], None],
        *,
        period: float = RESYNC,
    ) -> None:
        self._folders = folders
        self._living = living
        self._wake = wake
        self._period = period

    async def run(self, stop: asyncio.Event) -> None:
        stopped = asyncio.create_task(stop.wait())
        while not stopped.done():
            living = self._living()
            if living is not None:
                self._wake()
                await asyncio.to_thread(self._folders.collect, living)
            await asyncio.wait((stopped,), timeout=self._period)
