"""Whether the program is alive, and whether it is ready.

Guarantees   Liveness is answered from a thread of its own, so that it also answers while the event loop does not: it
             fails when the loop has been blocked for longer than `blocked_limit`, or once a task has died. Readiness
             fails, naming them, while a cache has not synced, one of our own kinds is not served, or a check that was
             added reports something; kinds of others that are missing are named and do no harm. An empty cluster is
             ready, and so is a standby.
Assumptions  `LoopPulse.run` runs in the loop that does the work.
Recovery     Both answers are made anew for each question. A dead task is never forgiven: only a restart mends it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic
from typing import Any, Protocol

from gpustack_op.api.meta import Resource
from gpustack_op.runtime.clock import elapsed
from gpustack_op.runtime.metrics import Metrics

LAG_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

PULSE = 0.25
"""Seconds between two looks at the clock: short enough to see most stalls, long enough to cost nothing."""


@dataclass(slots=True)
class Liveness:
    """What `/healthz` says.

    blocked_limit  default 20 s: far above any decoding burst, and short enough to be restarted within a minute.
                   Danger: too low restarts a busy program in the middle of its work.
    """

    blocked_limit: float = 20.0
    clock: Callable[[], float] = monotonic
    dead_tasks: list[str] = field(default_factory=list)
    _last_beat: float | None = None

    def beat(self) -> None:
        self._last_beat = self.clock()

    def task_died(self, name: str) -> None:
        self.dead_tasks.append(name)

    def problem(self) -> str | None:
        if self.dead_tasks:
            return f"dead: {', '.join(self.dead_tasks)}"
        silence = self.clock() - self._last_beat if self._last_beat is not None else 0.0
        return f"event loop blocked for {silence:.0f} s" if silence > self.blocked_limit else None


class LoopPulse:
    """Beats for the liveness and measures by how much the loop is late."""

    def __init__(self, liveness: Liveness, metrics: Metrics) -> None:
        self._liveness = liveness
        self._lag = metrics.histogram(
            "gpustack_event_loop_lag_seconds",
            "By how much the event loop ran a timer too late.",
            buckets=LAG_BUCKETS,
        )

    async def run(self) -> None:
        while True:
            self._liveness.beat()
            due = elapsed() + PULSE
            await asyncio.sleep(PULSE)
            self._lag.observe(max(0.0, elapsed() - due))


class CacheStates(Protocol):
    """The part of the caches that readiness asks. `unsynced` leaves out kinds that are not served."""

    def unsynced(self) -> list[str]: ...
    def missing(self) -> list[Resource[Any]]: ...


@dataclass(frozen=True, slots=True)
class Answer:
    ready: bool
    text: str


class Readiness:
    """What `/readyz` says. `own_groups` are the API groups without which the program makes no sense."""

    def __init__(self, caches: CacheStates, own_groups: Collection[str] = ()) -> None:
        self.started = False
        self._caches = caches
        self._own_groups = frozenset(own_groups)
        self._checks: list[Callable[[], str | None]] = []

    def add_check(self, problem: Callable[[], str | None]) -> None:
        """`problem` says what is wrong, or None."""
        self._checks.append(problem)

    def answer(self) -> Answer:
        missing = {str(resource): resource.group for resource in self._caches.missing()}
        ours = sorted(name for name, group in missing.items() if group in self._own_groups)
        foreign = sorted(missing.keys() - set(ours))
        problems = [] if self.started else ["not started"]
        problems += [f"not served: {name}" for name in ours]
        problems += [f"not synced: {name}" for name in self._caches.unsynced()]
        problems += [problem for check in self._checks if (problem := check())]
        notes = [f"waiting for: {name}" for name in foreign]
        return Answer(not problems, "\n".join([*(problems or ["ok"]), *notes]) + "\n")


class LivenessServer:
    """Serves `/healthz` from a thread. Port 0 takes a free one."""

    def __init__(self, liveness: Liveness, host: str, port: int) -> None:
        self._server = ThreadingHTTPServer((host, port), _handler(liveness))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="liveness", daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(liveness: Liveness) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 5

        def do_GET(self) -> None:
            problem = liveness.problem()
            body = f"{problem or 'ok'}\n".encode()
            self.send_response(503 if problem else 200)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Probes come every few seconds and are no news."""

    return Handler
