"""The device side of a kubelet, without an API server: its sockets, its checkpoint, and Pods as the test has them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grpc import aio

from devcluster.kubelet.devices import AllocationError
from devcluster.kubelet.folders import Folders
from devcluster.kubelet.manager import DeviceManager
from devcluster.kubelet.pod_resources import PodResourcesServer
from devcluster.kubelet.pods import Pod, PodMeta
from gpustack_op.agent.proto.podresources_pb2 import ListPodResourcesRequest
from gpustack_op.agent.proto.podresources_pb2_grpc import PodResourcesListerStub
from tests.runtime.kubelet.plugin import FakePlugin, devices
from tests.waiting import until

CARD = "example.com/card"


def pod(uid: str, *, init: Sequence[dict[str, Any]] = (), **limits: Mapping[str, int]) -> Pod:
    """Keyword arguments are containers with their limits."""
    return Pod(
        metadata=PodMeta(name=f"pod-{uid}", namespace="default", uid=uid),
        spec={
            "initContainers": list(init),
            "containers": [container(name, amounts) for name, amounts in limits.items()],
        },
    )


def container(name: str, limits: Mapping[str, int], **more: Any) -> dict[str, Any]:
    texts = {resource: str(amount) for resource, amount in limits.items()}
    return {"name": name, "resources": {"limits": texts, "requests": texts}, **more}


class Stand:
    """`now` is its clock in seconds."""

    def __init__(self, root: Path) -> None:
        self.folders = Folders(root)
        self.folders.create()
        self.pods: dict[str, Pod] = {}
        self.said: list[str] = []
        self.unwell: list[str] = []
        self.now = 0.0
        self._plugins: list[FakePlugin] = []
        self.make()

    def make(self) -> None:
        """A kubelet that has not been started yet."""
        self.devices = DeviceManager(
            self.folders,
            active=lambda: list(self.pods),
            say=self.said.append,
            health_changed=self.unwell.append,
            seed=7,
            clock=lambda: self.now,
        )
        self._server = PodResourcesServer(self.folders, self.devices, lambda: list(self.pods.values()))

    async def start(self, *, running: list[tuple[str, str]] | None = None, all_known: bool = True) -> None:
        await self.devices.start(running or [])
        await self._server.start()
        self._channel = aio.insecure_channel(f"unix:{self.folders.pod_resources}")
        self.resources = PodResourcesListerStub(self._channel)
        if all_known:
            self.devices.all_pods_known()

    async def stop(self) -> None:
        await self._channel.close()
        await self._server.stop()
        await self.devices.stop()

    async def restart(self, *, running: list[tuple[str, str]] | None = None, all_known: bool = True) -> None:
        await self.stop()
        self.make()
        await self.start(running=running, all_known=all_known)

    async def close(self) -> None:
        await self.stop()
        for plugin in self._plugins:
            await plugin.stop()

    async def plugin(self, *ids: str, resource: str = CARD, endpoint: str = "card.sock", **options: bool) -> FakePlugin:
        """One that is registered and has told these healthy devices."""
        made = await self.unregistered(resource=resource, endpoint=endpoint)
        for name, value in options.items():
            setattr(made.options, name, value)
        await made.register()
        if ids:
            await self.told(made, *ids)
        return made

    async def unregistered(self, *, resource: str = CARD, endpoint: str = "card.sock") -> FakePlugin:
        made = FakePlugin(self.folders.plugins, resource, endpoint=endpoint)
        self._plugins.append(made)
        await made.serve()
        return made

    async def told(self, plugin: FakePlugin, *ids: str) -> None:
        """Waits until a list of these healthy devices has arrived."""
        plugin.offer(devices(*ids))
        await self.offers(len(set(ids)), resource=plugin.resource)

    async def offers(self, allocatable: int, capacity: int | None = None, *, resource: str = CARD) -> None:
        """Waits until the node would say so."""

        async def so() -> bool:
            seen = self.devices.offer()
            wanted = allocatable if capacity is None else capacity
            return (seen.allocatable.get(resource), seen.capacity.get(resource)) == (allocatable, wanted)

        await until(so, every=0.01)

    async def admit(self, pod: Pod) -> str:
        """Empty, or why it is refused; then it is not active any more."""
        self.pods[pod.uid] = pod
        try:
            await asyncio.wait_for(self.devices.admit(pod), 20)
        except AllocationError as error:
            del self.pods[pod.uid]
            return str(error)
        return ""

    async def held(self, uid: str, container: str = "main") -> list[str]:
        """Ids, as the pod-resources socket tells them."""
        answer = await self.resources.List(ListPodResourcesRequest())
        containers = [
            each
            for told in answer.pod_resources
            for each in told.containers
            if (told.name, each.name) == (f"pod-{uid}", container)
        ]
        return sorted(device for each in containers for block in each.devices for device in block.device_ids)
