"""Starts and stops the parts of a program in order, and ends it when one of them is no longer to be trusted.

Guarantees   Start: metrics and health, webhooks, caches synced, leader elected, controllers. Stop, on SIGTERM, SIGINT
             or `request_stop`: controllers (they finish, or are cut off at the grace period and named), everything
             else that runs, caches, webhooks, servers; then the lease is released, and only if all work has really
             stopped. Losing the lease ends the process at once. A task that dies fails liveness, stops the program
             and makes `run` raise. A second signal ends the process at once.
Assumptions  `run` is called once, in the main thread. Kinds that are not served yet hold up only who watches them.
Recovery     Whatever could not be started is stopped again in the same order before `run` raises.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from gpustack_op.runtime.address import split_address
from gpustack_op.runtime.controller import Controller
from gpustack_op.runtime.endpoints import Endpoints
from gpustack_op.runtime.health import CacheStates, Liveness, LivenessServer, LoopPulse, Readiness
from gpustack_op.runtime.leader_election import Connection, ElectionOptions, Elector
from gpustack_op.runtime.logging import logger
from gpustack_op.runtime.metrics import Metrics
from gpustack_op.runtime.stop_signals import stop_signals
from gpustack_op.runtime.watchdog import Watchdog

__all__ = [
    "Caches",
    "Keeper",
    "Manager",
    "ManagerOptions",
    "Runnable",
    "Server",
    "TaskDiedError",
    "split_address",
]

log = logger("manager")

TELL_WAITING_AFTER = 10.0
"""Seconds after which caches that have not synced are named in the log."""

CUT_GRACE = 2.0
"""Seconds that a task has to end after it was cut off."""


class Runnable(Protocol):
    """Something that runs beside the controllers. It ends soon after `stop` is set; raising ends the program."""

    @property
    def name(self) -> str: ...
    async def run(self, stop: asyncio.Event) -> None: ...


class Server(Protocol):
    """The webhook server: `start` returns when it listens."""

    async def start(self) -> None: ...
    async def stop(self) -> None: ...


class Keeper(Protocol):
    """What the webhook server needs before it can start, and while it runs."""

    async def prepare(self) -> None: ...
    async def run(self) -> None: ...


class Caches(CacheStates, Protocol):
    def start(self, ended: Callable[[asyncio.Task[None]], None]) -> None: ...
    async def stop(self) -> None: ...
    async def wait_synced(self) -> None: ...


class TaskDiedError(Exception):
    """A task of the program ended with an error; the cause is chained."""


@dataclass(frozen=True, slots=True)
class ManagerOptions:
    """How a program runs.

    metrics_bind   `host:port` of /metrics and /readyz; empty for none. Port 0 takes a free one.
    health_bind    `host:port` of /healthz; empty for none.
    own_groups     API groups of our own kinds: not ready while one of them is not served.
    grace_period   default 20 s for work in progress at a stop; keep it below the Pod's termination grace.
    blocked_limit  default 20 s, see `Liveness`.
    election       None (default): every replica leads, which is right only where there can be one.
    """

    metrics_bind: str = ""
    health_bind: str = ""
    own_groups: tuple[str, ...] = ()
    grace_period: float = 20.0
    blocked_limit: float = 20.0
    election: ElectionOptions | None = None


class Manager:
    """Everything that one program runs.

    lease_client  default `client`. A connection that leader election has to itself is better: no other traffic can
                  delay a renewal.
    end           ends the process without any cleaning up; `os._exit` but in tests.
    """

    def __init__(
        self,
        client: Connection,
        caches: Caches,
        *,
        options: ManagerOptions,
        metrics: Metrics | None = None,
        lease_client: Connection | None = None,
        end: Callable[[int], None] = os._exit,
    ) -> None:
        self.options = options
        self.metrics = metrics or Metrics()
        self.liveness = Liveness(blocked_limit=options.blocked_limit)
        self.readiness = Readiness(caches, options.own_groups)
        self.endpoints: Endpoints | None = None
        self.liveness_server: LivenessServer | None = None
        self.elector = self._elector(options.election, lease_client or client)
        self._caches = caches
        self._end = end
        self._webhooks: tuple[Server, Keeper | None] | None = None
        self._controllers: list[Controller] = []
        self._runnables: list[tuple[Runnable, bool]] = []
        self._stop = asyncio.Event()
        self._stop_leaders, self._stop_others = asyncio.Event(), asyncio.Event()
        self._leaders: dict[asyncio.Task[None], Controller | Runnable] = {}
        self._others: dict[asyncio.Task[None], Controller | Runnable] = {}
        self._background: dict[asyncio.Task[None], str] = {}
        self._caches_started = False
        self._ended = False
        self._watchdog: Watchdog | None = None
        self._death: tuple[str, BaseException] | None = None

    def add_controller(self, controller: Controller) -> None:
        controller.measure_with(self.metrics)
        self._controllers.append(controller)

    def add_runnable(self, runnable: Runnable, *, needs_leader: bool = False) -> None:
        """Without `needs_leader` it starts once the caches have synced, and stops after all controllers."""
        self._runnables.append((runnable, needs_leader))

    def add_webhooks(self, server: Server, keeper: Keeper | None = None) -> None:
        self._webhooks = (server, keeper)

    def request_stop(self) -> None:
        self._stop.set()

    async def run(self) -> None:
        """Start everything, work until told to stop, stop everything. Raises what could not start or has died."""
        with stop_signals(self._signalled):
            starting = asyncio.create_task(self._start(), name="start")
            try:
                await self._until_stop_or_failure(starting)
            finally:
                await _ended([starting], cancel=True)
                await self._shut_down()
        if self._death is not None:
            name, error = self._death
            raise TaskDiedError(f"{name} died: {error}") from error

    async def _until_stop_or_failure(self, starting: asyncio.Task[None]) -> None:
        stop = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait((starting, stop), return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                await starting
            await stop
        finally:
            stop.cancel()

    # --- start ----------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        await self._start_servers()
        await self._start_webhooks()
        self._caches_started = True
        self._caches.start(self._task_ended)
        self.readiness.started = True
        await self._caches_synced()
        self._start_work(leaders=False)
        if self.elector is not None:
            await self._lead(self.elector)
        self._start_work(leaders=True)
        log.info("manager.started", controllers=len(self._controllers))

    async def _start_servers(self) -> None:
        self.liveness.beat()
        self._in_background("event-loop-pulse", LoopPulse(self.liveness, self.metrics).run())
        if self.options.metrics_bind:
            self.endpoints = Endpoints(self.metrics, self.readiness, *split_address(self.options.metrics_bind))
            await self.endpoints.start()
        if self.options.health_bind:
            self.liveness_server = LivenessServer(self.liveness, *split_address(self.options.health_bind))
            self.liveness_server.start()

    async def _start_webhooks(self) -> None:
        if self._webhooks is None:
            return
        server, keeper = self._webhooks
        if keeper is not None:
            await keeper.prepare()
        await server.start()
        if keeper is not None:
            self._in_background("certificate-keeper", keeper.run())

    async def _caches_synced(self) -> None:
        synced = asyncio.ensure_future(self._caches.wait_synced())
        try:
            await asyncio.wait((synced,), timeout=TELL_WAITING_AFTER)
            if not synced.done():
                log.warning("manager.waiting_for_caches", kinds=self._caches.unsynced())
            await synced
        finally:
            synced.cancel()

    async def _lead(self, elector: Elector) -> None:
        await elector.acquire()
        self._watchdog = Watchdog(lambda: elector.leads_until, self._lost, clock=asyncio.get_running_loop().time)
        self._watchdog.start()
        self._in_background("leader-election", elector.hold())

    def _start_work(self, *, leaders: bool) -> None:
        tasks, stop = (self._leaders, self._stop_leaders) if leaders else (self._others, self._stop_others)
        work: list[Controller | Runnable] = [part for part in self._controllers if part.needs_leader == leaders]
        work += [part for part, needs_leader in self._runnables if needs_leader == leaders]
        for part in work:
            task = asyncio.create_task(part.run(stop), name=part.name)
            task.add_done_callback(self._task_ended)
            tasks[task] = part

    # --- failures -------------------------------------------------------------------------------------------------

    def _in_background(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._task_ended)
        self._background[task] = name

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or (error := task.exception()) is None:
            return
        log.error("manager.task_died", task=task.get_name(), exc_info=error)
        self.liveness.task_died(task.get_name())
        self._death = self._death or (task.get_name(), error)
        self.request_stop()

    def _lost(self) -> None:
        self._end_now("the lease is lost; another process may lead")

    def _end_now(self, reason: str) -> None:
        if not self._ended:
            self._ended = True
            log.error("manager.ended", reason=reason)
            sys.stderr.flush()
            self._end(1)

    def _signalled(self, name: str) -> None:
        if self._stop.is_set():
            self._end_now(f"{name} while stopping")
            return
        log.info("manager.stopping", signal=name)
        self.request_stop()

    # --- stop -----------------------------------------------------------------------------------------------------

    async def _shut_down(self) -> None:
        self._stop_leaders.set()
        stopped = await self._finished(self._leaders)
        self._stop_others.set()
        stopped &= await self._finished(self._others)
        if self._caches_started:
            await self._caches.stop()
        if self._webhooks is not None:
            await self._webhooks[0].stop()
        await self._stop_servers()
        await self._give_up_lease(stopped)
        log.info("manager.stopped")

    async def _finished(self, tasks: dict[asyncio.Task[None], Controller | Runnable]) -> bool:
        """Wait for the end of work, then cut it off; whether all of it has ended."""
        late = await _ended(tasks, within=self.options.grace_period)
        if not late:
            return True
        log.error("manager.did_not_stop", work=[text for task in late for text in _in_progress(tasks[task])])
        stuck = await _ended(late, cancel=True, within=CUT_GRACE)
        if stuck:
            log.error("manager.cannot_stop", work=[tasks[task].name for task in stuck])
        return not stuck

    async def _stop_servers(self) -> None:
        if self.endpoints is not None:
            await self.endpoints.stop()
        if self.liveness_server is not None:
            await asyncio.to_thread(self.liveness_server.stop)

    async def _give_up_lease(self, stopped: bool) -> None:
        await _ended(self._background, cancel=True, within=CUT_GRACE)
        if self._watchdog is not None:
            await asyncio.to_thread(self._watchdog.stop)
        if self.elector is not None and stopped:
            await self.elector.release()

    def _elector(self, options: ElectionOptions | None, client: Connection) -> Elector | None:
        if options is None:
            return None
        elector = Elector(client, options, lost=self._lost, metrics=self.metrics)
        self.readiness.add_check(lambda: elector.problem)
        return elector


def _in_progress(part: Controller | Runnable) -> list[str]:
    requests = part.in_progress if isinstance(part, Controller) else []
    return [f"{part.name}: {request}" for request in requests] or [part.name]


async def _ended(
    tasks: Iterable[asyncio.Task[None]], *, within: float | None = None, cancel: bool = False
) -> set[asyncio.Task[None]]:
    """Wait for tasks, whose errors are told elsewhere; those that have not ended in time."""
    waited = set(tasks)
    if cancel:
        for task in waited:
            task.cancel()
    return (await asyncio.wait(waited, timeout=within))[1] if waited else set()
