"""What a kubelet asks of a container runtime, and what it is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec


class Specification(msgspec.Struct, frozen=True, kw_only=True):
    """One container to run. Its process sees these variables and no others, and starts in this folder."""

    id: str
    node: str
    pod: str
    """UID"""
    container: str
    attempt: int = 0
    command: list[str]
    environment: dict[str, str] = {}
    directory: str
    log: str
    """File that gets all it prints."""


class State(msgspec.Struct, frozen=True, kw_only=True):
    """A container that was started. Times are seconds since the epoch; without `finished_at` it runs."""

    id: str
    node: str
    pod: str
    container: str
    attempt: int
    log: str
    started_at: float
    finished_at: float | None = None
    exit_code: int = 0

    @property
    def running(self) -> bool:
        return self.finished_at is None


class Snapshot(msgspec.Struct, frozen=True):
    """All containers of a node. `version` grows with every change of any node."""

    version: int
    states: list[State]


class StartError(Exception):
    """The process could not be started."""


class Runtime(Protocol):
    async def start(self, specification: Specification) -> None:
        """Raises StartError. Starting what is there already does nothing."""

    async def stop(self, container: str, grace: float) -> None:
        """SIGTERM, and SIGKILL after `grace` seconds; does not wait. A shorter grace period replaces a longer one."""

    async def remove(self, containers: Sequence[str]) -> None:
        """Forgets containers; those that still run are killed."""

    async def snapshot(self, node: str, after: int = -1) -> Snapshot:
        """Answers once the version is higher than `after`, or after a while."""
