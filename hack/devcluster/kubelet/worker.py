"""One Pod on its node, from admission until nothing of it is left.

Guarantees   What should run is started, what ends is started again, and each change is reported. A Pod whose end is
             asked for is ended within its grace period; only then does its object go, and only then are its devices
             free. Containers that run already are found again, so a restart of the kubelet does not disturb them.
Recovery     A container that cannot be started waits with the reason in its status and is tried again.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from devcluster.containers.interface import Runtime, StartError, State
from devcluster.kubelet.devices import AllocationError
from devcluster.kubelet.environment import ConfigurationError
from devcluster.kubelet.folders import Folders
from devcluster.kubelet.given import Given
from devcluster.kubelet.launch import Launcher
from devcluster.kubelet.lineup import Lineup
from devcluster.kubelet.pods import TERMINAL, Json, Pod
from devcluster.kubelet.reports import Reports
from devcluster.kubelet.status import Waiting, refused, status
from gpustack_op.runtime.event_objects import Type

SHORTEST_GRACE: Final = 1.0
"""Seconds, also when none is asked for."""


class DevicesOfContainers(Protocol):
    """What a worker needs of the device manager."""

    async def given(self, pod: Pod, container: Json) -> Given:
        """What the plugins give the container for the start that is coming; may raise AllocationError."""

    def health(self, pod: Pod, container: str) -> tuple[Json, ...]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What all Pods of a node share. `retry` and `backoff` are seconds."""

    node: str
    node_address: str
    folders: Folders
    runtime: Runtime
    launcher: Launcher
    devices: DevicesOfContainers
    say: Callable[[str], None]
    event: Callable[[Pod, Type, str, str], None]
    retry: float
    backoff: float


class Worker:
    def __init__(self, pod: Pod, around: Surroundings, reports: Reports, address: str) -> None:
        """`address` is the Pod's."""
        self.pod = pod
        self.ending = pod.deleting or pod.phase in TERMINAL
        """Whether nothing is started any more."""
        self.ended = False
        """Whether nothing of it runs or will."""
        self.refusal = False
        self.address = address
        self._around = around
        self._reports = reports
        self._lineup = Lineup(around.backoff, time.time)
        self._asked: dict[str, float] = {}
        self._wake = asyncio.Event()
        self._reporter: asyncio.Task[None] | None = None

    @property
    def active(self) -> bool:
        """Whether it may hold devices."""
        if self.ended or self.refusal:
            return False
        finished = self.pod.phase in TERMINAL or self._reports.latest.get("phase") in TERMINAL
        return not finished or (self.ending and bool(self._lineup.running))

    @property
    def containers(self) -> Lineup:
        return self._lineup

    def start(self, tasks: asyncio.TaskGroup, done: Callable[[], None]) -> None:
        """`done` is called when nothing is left of the Pod."""
        self._reporter = tasks.create_task(self._reports.run(), name=f"reports of {self.pod}")
        tasks.create_task(self._run(), name=f"pod {self.pod}").add_done_callback(lambda _: done())

    def refuse(self, reason: str, text: str) -> None:
        """For good. What still runs of it, after a restart of the kubelet, is ended."""
        self.refusal = self.ending = True
        self._around.event(self.pod, "Warning", reason, text)
        self._reports.report(refused(reason, text))

    def update(self, pod: Pod) -> None:
        self.pod = pod
        if pod.deleting or pod.phase in TERMINAL:
            self.ending = True
        self._wake.set()

    def vanished(self) -> None:
        """The object is gone before the Pod is: somebody did not want to wait."""
        self._reports.gone = True
        self.ending = True
        self._wake.set()

    def observe(self, states: Iterable[State]) -> None:
        self._lineup.update(states)
        self._wake.set()

    def wake(self) -> None:
        self._wake.set()

    async def _run(self) -> None:
        while not self.ended:
            await self._sync()
            if not self.ended:
                await self._pause()
        while not (self.pod.deleting or self._reports.gone):
            await self._pause()
        await self._remove()

    async def _pause(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._lineup.next_look() or self._around.retry):
                await self._wake.wait()
        self._wake.clear()

    async def _sync(self) -> None:
        if not self.ending:
            for container in list(self._lineup.to_start(self.pod)):
                await self._start(container)
            self.ending = self.ending or self._lineup.is_finished(self.pod)
        await self._kindly(self._around.runtime.remove, self._lineup.outdated())
        if self.ending:
            await self._stop_what_runs()
            self.ended = not self._lineup.running
        self._report()

    async def _start(self, container: Json) -> None:
        name, around = container["name"], self._around
        attempt = self._lineup.next_attempt(name)
        try:
            plugins = await around.devices.given(self.pod, container)
            if self.ending:
                return
            await around.launcher.launch(self.pod, container, attempt, plugins, self.address)
            snapshot = await around.runtime.snapshot(around.node)
        except (AllocationError, ConfigurationError) as error:
            self._wait(name, "CreateContainerConfigError", str(error))
        except (StartError, OSError) as error:
            self._wait(name, "RunContainerError", str(error))
        else:
            self._lineup.waiting.pop(name, None)
            around.event(self.pod, "Normal", "Started", f"Started container {name}")
            self._lineup.update(state for state in snapshot.states if state.pod == self.pod.uid)

    def _wait(self, name: str, reason: str, message: str) -> None:
        self._lineup.waiting[name] = Waiting(reason, message)
        self._around.event(self.pod, "Warning", "Failed", f"Error: {message}")

    async def _stop_what_runs(self) -> None:
        """Asks once, and again when the grace period has become shorter."""
        grace = max(self.pod.grace, SHORTEST_GRACE)
        for state in self._lineup.running:
            if grace < self._asked.get(state.id, grace + 1):
                self._around.event(self.pod, "Normal", "Killing", f"Stopping container {state.container}")
                if await self._kindly(self._around.runtime.stop, state.id, grace):
                    self._asked[state.id] = grace

    def _report(self) -> None:
        if self.refusal:
            return
        names = [each["name"] for each in self.pod.all_containers]
        known = {
            name: replace(self._lineup.known(name), resources=self._around.devices.health(self.pod, name))
            for name in names
        }
        addresses = (self._around.node_address, self.address)
        self._reports.report(status(self.pod, known, self._reports.latest, ending=self.ended, addresses=addresses))

    async def _remove(self) -> None:
        """What is left of it, and the object last."""
        ids = [state.id for states in self._lineup.states.values() for state in states]
        await self._kindly(self._around.runtime.remove, ids)
        await asyncio.to_thread(shutil.rmtree, self._around.folders.pod(self.pod.uid), ignore_errors=True)
        if self._reporter is not None:
            self._reporter.cancel()
            with suppress(asyncio.CancelledError):
                await self._reporter
        await self._reports.removed()

    async def _kindly(self, call: Callable[..., Awaitable[None]], *arguments: Any) -> bool:
        """Whether it was heard: a runtime that is away is asked again at the next look."""
        try:
            await call(*arguments)
        except OSError as error:
            self._around.say(f"{self.pod}: the runtime does not answer: {error}")
            return False
        return True
