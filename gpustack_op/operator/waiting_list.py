"""Which Workloads wait for cards, for which nodes, and since when.

Guarantees   A node is tried for a Workload once for each state of its ledger: what was refused there is not tried again
             until the ledger moves, or the patience is over.
Assumptions  One judgement at a time.
Recovery     Nothing is stored. A new process lets back in what an earlier one held, and judges it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from gpustack_op.api.kueue import Workload
from gpustack_op.runtime.controller import Request

PATIENCE = 30.0
"""Seconds after which a Workload is tried without a pin, whatever we believe."""


@dataclass(slots=True)
class Wait:
    """`judged` is the Workload with the reservation that it lost."""

    judged: Workload
    candidates: frozenset[str]
    since: float
    refused: set[str] = field(default_factory=set)


class WaitingList:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._waits: dict[Request, Wait] = {}

    def get(self, workload: Workload) -> Wait | None:
        wait = self._waits.get(Request(workload.name, workload.namespace))
        return wait if wait and wait.judged.uid == workload.uid else None

    def put(self, workload: Workload, candidates: Iterable[str], *, refused: Iterable[str] = ()) -> None:
        """It waits for one of these nodes, and those refused it."""
        earlier = self.get(workload)
        known = earlier.refused if earlier else set()
        wait = Wait(workload, frozenset(candidates), self._clock(), known | set(refused))
        self._waits[Request(workload.name, workload.namespace)] = wait

    def drop(self, request: Request) -> None:
        self._waits.pop(request, None)

    def restart(self, wait: Wait) -> None:
        wait.since = self._clock()

    def left(self, wait: Wait) -> float:
        """Seconds of patience left; not above 0 when it is over."""
        return wait.since + PATIENCE - self._clock()

    def moved(self, host: str) -> list[Request]:
        """Who waits for this node, whose ledger has changed, the oldest first."""
        found = [request for request, wait in self._waits.items() if host in wait.candidates]
        for request in found:
            self._waits[request].refused.discard(host)
        return sorted(found, key=self._age)

    def everybody(self) -> list[Request]:
        for wait in self._waits.values():
            wait.refused.clear()
        return sorted(self._waits, key=self._age)

    def _age(self, request: Request) -> tuple[str, str, str]:
        return self._waits[request].judged.metadata.creation_timestamp, request.namespace, request.name
