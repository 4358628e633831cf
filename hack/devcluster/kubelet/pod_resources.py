"""The socket on which the kubelet tells who holds which devices.

Guarantees   As the real kubelet: active Pods without their UIDs, one block an id, in any order; 100 calls a second
             over all clients, and ten at once.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import grpc
from grpc import aio

from devcluster.kubelet.folders import Folders
from devcluster.kubelet.manager import DeviceManager
from devcluster.kubelet.pods import Json, Pod
from gpustack_op.agent.proto.podresources_pb2 import (
    AllocatableResourcesRequest,
    AllocatableResourcesResponse,
    ContainerDevices,
    ContainerResources,
    GetPodResourcesRequest,
    GetPodResourcesResponse,
    ListPodResourcesRequest,
    ListPodResourcesResponse,
    NUMANode,
    PodResources,
    TopologyInfo,
)
from gpustack_op.agent.proto.podresources_pb2_grpc import (
    PodResourcesListerServicer,
    add_PodResourcesListerServicer_to_server,
)
from gpustack_op.runtime.rate_limits import TokenBucket

CALLS_A_SECOND: Final = 100.0
BURST: Final = 10.0


class PodResourcesServer(PodResourcesListerServicer):
    """`active` gives the active Pods, the one that is being admitted included."""

    def __init__(self, folders: Folders, devices: DeviceManager, active: Callable[[], Iterable[Pod]]) -> None:
        self._folders = folders
        self._devices = devices
        self._active = active
        self._bucket = TokenBucket(rate=CALLS_A_SECOND, burst=BURST)
        self._server: aio.Server | None = None

    async def start(self) -> None:
        self._folders.pod_resources.unlink(missing_ok=True)
        server = self._server = aio.server()
        add_PodResourcesListerServicer_to_server(self, server)
        server.add_insecure_port(f"unix:{self._folders.pod_resources}")
        await server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(None)

    async def List(  # noqa: N802  # the protocol's
        self,
        request: ListPodResourcesRequest,
        context: aio.ServicerContext[ListPodResourcesRequest, Awaitable[ListPodResourcesResponse]],
    ) -> ListPodResourcesResponse:
        await self._limit(context)
        self._devices.give_back()
        return ListPodResourcesResponse(pod_resources=[self._told(pod) for pod in self._active()])

    async def Get(  # noqa: N802  # the protocol's
        self,
        request: GetPodResourcesRequest,
        context: aio.ServicerContext[GetPodResourcesRequest, Awaitable[GetPodResourcesResponse]],
    ) -> GetPodResourcesResponse:
        await self._limit(context)
        for pod in self._active():
            if (pod.namespace, pod.name) == (request.pod_namespace, request.pod_name):
                return GetPodResourcesResponse(pod_resources=self._told(pod))
        text = f"pod {request.pod_name} in namespace {request.pod_namespace} not found"
        await context.abort(grpc.StatusCode.UNKNOWN, text)
        raise AssertionError("unreachable")

    async def GetAllocatableResources(  # noqa: N802  # the protocol's
        self,
        request: AllocatableResourcesRequest,
        context: aio.ServicerContext[AllocatableResourcesRequest, Awaitable[AllocatableResourcesResponse]],
    ) -> AllocatableResourcesResponse:
        await self._limit(context)
        return AllocatableResourcesResponse(devices=_blocks(self._devices.healthy()))

    async def _limit(self, context: aio.ServicerContext[Any, Any]) -> None:
        if not self._bucket.allow(time.monotonic()):
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")

    def _told(self, pod: Pod) -> PodResources:
        containers = [self._container(pod, each) for each in pod.long_running]
        return PodResources(name=pod.name, namespace=pod.namespace, containers=containers)

    def _container(self, pod: Pod, container: Json) -> ContainerResources:
        held = self._devices.held(pod.uid, container["name"])
        return ContainerResources(name=container["name"], devices=_blocks(held))


def _blocks(devices: Iterable[tuple[str, str, tuple[int, ...]]]) -> list[ContainerDevices]:
    return [block for resource, device, nodes in devices for block in _blocks_of(resource, device, nodes)]


def _blocks_of(resource: str, device: str, nodes: tuple[int, ...]) -> list[ContainerDevices]:
    """One, and where it belongs to several NUMA nodes one for each of them."""
    if not nodes:
        return [ContainerDevices(resource_name=resource, device_ids=[device])]
    places = [TopologyInfo(nodes=[NUMANode(ID=node)]) for node in nodes]
    return [ContainerDevices(resource_name=resource, device_ids=[device], topology=place) for place in places]
