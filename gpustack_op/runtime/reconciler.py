"""What a reconciler is asked and what it answers.

Guarantees   A reconciler gets a key, never an event: it finds out the state by itself, from caches.
Assumptions  It survives being run twice, late, or after a crash between any two of its writes.
Recovery     It raises what it cannot handle; its controller isolates the key and runs it again after a back-off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Request:
    """The key of one object. `namespace` is empty for cluster-scoped kinds."""

    name: str
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Result:
    """How a reconcile that went well wants to go on.

    requeue_after  default None: only the next event wakes the key. Seconds make it a safety net, or serve what truly
                   depends on time. Danger: anything short polls; watch what you wait for instead.
    """

    requeue_after: float | None = None


DONE = Result()


class TerminalError(Exception):
    """A retry cannot mend this: it is counted and logged, and the key rests until its next event."""


class TryAgainError(Exception):
    """The state is about to change by itself: the key is retried with back-off, and nothing is logged at first."""


class Reconciler(Protocol):
    """Brings one object to the state it should have. `name` labels logs and metrics and is unique in a program."""

    @property
    def name(self) -> str: ...

    async def reconcile(self, request: Request) -> Result: ...
