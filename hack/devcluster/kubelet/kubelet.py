"""One node's kubelet, put together.

Assumptions  The container runtime outlives it.
Recovery     Without the API server or the runtime it goes on with what it knows. A bug ends it, loudly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from devcluster.containers.interface import Runtime, Snapshot
from devcluster.kubelet.admission import Admission
from devcluster.kubelet.folders import Folders
from devcluster.kubelet.launch import Launcher
from devcluster.kubelet.manager import DeviceManager
from devcluster.kubelet.pod_resources import PodResourcesServer
from devcluster.kubelet.pods import PODS, Pod
from devcluster.kubelet.roster import Roster
from devcluster.kubelet.settings import Timing
from devcluster.kubelet.sources import Source, config_of
from devcluster.kubelet.worker import Surroundings
from devcluster.node import SimulatedNode
from gpustack_op.agent import inventory
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.event_objects import Type
from gpustack_op.runtime.events import Recorder

ADDRESS: Final = "127.0.0.1"

RUNTIME_RETRY: Final = 0.3
"""Seconds."""


class Kubelet:
    """`machine` is the inventory's file; `port` where the API server comes to for people, if it may."""

    def __init__(
        self,
        machine: Path,
        folders: Folders,
        client: Client,
        runtime: Runtime,
        *,
        say: Callable[[str], None],
        timing: Timing,
        port: int | None = None,
        seed: int | None = None,
    ) -> None:
        loaded = inventory.load(machine)
        self.name = loaded.node
        self.folders = folders
        self._runtime = runtime
        self._say = say
        self._timing = timing
        self._client = client
        self.roster = Roster(client)
        self._devices = DeviceManager(
            folders,
            active=lambda: [pod.uid for pod in self.roster.active()],
            say=say,
            health_changed=self.roster.wake,
            seed=seed,
            stopped_grace=timing.stopped_grace,
        )
        self._source = Source(client, self.name, self.roster.changed)
        self._recorder = Recorder(client, controller="kubelet.devcluster/kubelet", instance=self.name)
        self._node = SimulatedNode(
            machine,
            loaded,
            client,
            say,
            period=timing.status_period,
            offer=self._devices.offer,
            endpoint=None if port is None else endpoint(port),
        )

    async def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Until cancelled; `ready` is called when plugins can register."""
        self.folders.create()
        present = await self._snapshot()
        self.roster.observe(present.states)
        await self._node.look()
        resources = PodResourcesServer(self.folders, self._devices, self.roster.active)
        await self._devices.start([(state.pod, state.container) for state in present.states if state.running])
        await resources.start()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._node.run(), name="node")
                tasks.create_task(self._source.run(), name="source of Pods")
                tasks.create_task(self._recorder.run(asyncio.Event()), name="events")
                tasks.create_task(self._follow_runtime(present.version), name="runtime")
                tasks.create_task(self._take_in(tasks), name="Pods")
                ready()
        finally:
            await resources.stop()
            await self._devices.stop()

    async def _take_in(self, tasks: asyncio.TaskGroup) -> None:
        around = Surroundings(
            node=self.name,
            node_address=ADDRESS,
            folders=self.folders,
            runtime=self._runtime,
            launcher=Launcher(self.name, ADDRESS, self.folders, self._runtime, config_of(self._client)),
            devices=self._devices,
            say=self._say,
            event=self._event,
            retry=self._timing.retry,
            backoff=self._timing.backoff,
        )
        await self._source.synced()
        admission = Admission(self._devices, self._node)
        await self.roster.run(admission, around, tasks, all_known=self._devices.all_pods_known)

    async def _follow_runtime(self, version: int) -> None:
        while True:
            snapshot = await self._snapshot(version)
            version = snapshot.version
            strangers = self.roster.observe(snapshot.states)
            if strangers:
                with suppress(OSError):
                    await self._runtime.remove(strangers)

    async def _snapshot(self, after: int = -1) -> Snapshot:
        """Waits for a runtime that is away."""
        failing = False
        while True:
            try:
                return await self._runtime.snapshot(self.name, after)
            except OSError as error:
                if not failing:
                    self._say(f"the container runtime does not answer: {error}")
                failing = True
                after = -1
                await asyncio.sleep(RUNTIME_RETRY)

    def _event(self, pod: Pod, kind: Type, reason: str, text: str) -> None:
        self._recorder.event(pod, kind, reason, text, action=reason, resource=PODS)


def endpoint(port: int) -> dict[str, Any]:
    """What a Node's status says of its kubelet, so that the API server comes for `exec` and `logs`."""
    return {
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "declaredFeatures": ["ExtendWebSocketsToKubelet"],
    }
