"""The device side of the simulated kubelet, without an API server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from grpc import aio

from devcluster.kubelet.devices import AllocationError
from devcluster.kubelet.given import Given
from devcluster.kubelet.manager import DeviceManager
from devcluster.kubelet.pod_resources import PodResourcesServer
from devcluster.kubelet.pods import Pod
from devcluster.node_resources import Offer
from gpustack_op.agent.proto.podresources_pb2 import ListPodResourcesRequest
from gpustack_op.agent.proto.podresources_pb2_grpc import PodResourcesListerStub
from tests.runtime.kubelet.bench import Bench, FailedError


class Stand(Bench):
    """`now` is its clock in seconds, `unwell` are Pods whose devices have changed their health."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.said: list[str] = []
        self.unwell: list[str] = []
        self.now = 0.0

    async def start(self, *, running: Sequence[tuple[str, str]] = (), all_known: bool = True) -> None:
        self.devices = DeviceManager(
            self.folders,
            active=lambda: list(self.pods),
            say=self.said.append,
            health_changed=self.unwell.append,
            seed=7,
            clock=lambda: self.now,
        )
        self._server = PodResourcesServer(self.folders, self.devices, lambda: list(self.pods.values()))
        await self.devices.start(running)
        await self._server.start()
        self._channel = aio.insecure_channel(f"unix:{self.folders.pod_resources}")
        self.resources = PodResourcesListerStub(self._channel)
        if all_known:
            self.devices.all_pods_known()

    async def stop(self) -> None:
        await self._channel.close()
        await self._server.stop()
        await self.devices.stop()

    async def all_known(self) -> None:
        self.devices.all_pods_known()

    async def offer(self) -> Offer:
        return self.devices.offer()

    async def allocate(self, pod: Pod) -> None:
        with told():
            await self.devices.admit(pod)

    async def given(self, pod: Pod, container: str) -> Mapping[str, str]:
        return (await self.all_given(pod, container)).environment

    async def all_given(self, pod: Pod, container: str) -> Given:
        described = next(each for each in pod.all_containers if each["name"] == container)
        with told():
            return await self.devices.given(pod, described)

    async def held(self, uid: str, container: str = "main") -> list[str]:
        """As the pod-resources socket tells them."""
        answer = await self.resources.List(ListPodResourcesRequest())
        containers = [
            each
            for pod in answer.pod_resources
            for each in pod.containers
            if (pod.name, each.name) == (f"pod-{uid}", container)
        ]
        return sorted(device for each in containers for block in each.devices for device in block.device_ids)


@contextmanager
def told() -> Iterator[None]:
    try:
        yield
    except AllocationError as error:
        raise FailedError(str(error)) from error
