"""The sockets of a kubelet, for tests of whoever registers with it: no Pods, no checkpoint, no choice of devices.

What the real one does to a plugin is kept: it dials back before it accepts, opens the stream only then, forgets its
plugins' sockets when it starts, and closes the newest connection of a resource when any stream of it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
from grpc import aio

from gpustack_op.agent.proto.deviceplugin_pb2 import (
    AllocateRequest,
    ContainerAllocateRequest,
    ContainerAllocateResponse,
    ContainerPreferredAllocationRequest,
    Device,
    Empty,
    PreferredAllocationRequest,
    RegisterRequest,
)
from gpustack_op.agent.proto.deviceplugin_pb2_grpc import (
    DevicePluginStub,
    RegistrationServicer,
    add_RegistrationServicer_to_server,
)
from gpustack_op.agent.proto.podresources_pb2 import ListPodResourcesRequest, ListPodResourcesResponse, PodResources
from gpustack_op.agent.proto.podresources_pb2_grpc import (
    PodResourcesListerServicer,
    add_PodResourcesListerServicer_to_server,
)
from tests.waiting import until

Lists = list[Sequence[Device]]


class KubeletDouble(RegistrationServicer, PodResourcesListerServicer):
    """`lists` are all messages of a resource since the last start; `refusals` registrations are refused first."""

    def __init__(self, root: Path) -> None:
        self.plugins = root / "device-plugins"
        self.resources = root / "pod-resources"
        self.registered: list[str] = []
        self.lists: dict[str, Lists] = {}
        self.pods: list[PodResources] = []
        self.refusals = 0
        self.opens_streams = True
        self._channels: dict[str, aio.Channel] = {}
        self._streams: set[asyncio.Task[None]] = set()
        self._servers: list[aio.Server] = []

    async def start(self) -> None:
        for folder in (self.plugins, self.resources):
            folder.mkdir(parents=True, exist_ok=True)
            for path in folder.iterdir():
                if path.is_socket():
                    path.unlink()
        self.registered, self.lists = [], {}
        await self._serve(add_RegistrationServicer_to_server, self.plugins / "kubelet.sock")
        await self._serve(add_PodResourcesListerServicer_to_server, self.resources / "kubelet.sock")

    async def stop(self) -> None:
        for stream in list(self._streams):
            stream.cancel()
        await asyncio.gather(*self._streams, return_exceptions=True)
        for channel in self._channels.values():
            await channel.close()
        for server in self._servers:
            await server.stop(None)
        self._channels, self._servers = {}, []

    async def drop(self, resource: str) -> None:
        """As when an older plugin of the resource ends."""
        await self._channels.pop(resource).close()

    # --- calls

    async def allocate(self, resource: str, ids: Sequence[str]) -> ContainerAllocateResponse:
        request = AllocateRequest(container_requests=[ContainerAllocateRequest(devices_ids=ids)])
        answer = await DevicePluginStub(self._channels[resource]).Allocate(request, timeout=10)
        return answer.container_responses[0]

    async def preferred(self, resource: str, available: Sequence[str], size: int) -> list[str]:
        asked = ContainerPreferredAllocationRequest(available_deviceIDs=available, allocation_size=size)
        stub = DevicePluginStub(self._channels[resource])
        answer = await stub.GetPreferredAllocation(PreferredAllocationRequest(container_requests=[asked]), timeout=10)
        return list(answer.container_responses[0].deviceIDs)

    def healthy(self, resource: str) -> list[str]:
        """Of the last list."""
        return sorted(one.ID for one in self.lists[resource][-1] if one.health == "Healthy")

    async def listed(self, *resources: str, times: int = 1) -> None:
        """Waits until so many lists of each have come."""

        async def are() -> bool:
            return all(len(self.lists.get(resource, ())) >= times for resource in resources)

        await until(are, every=0.01)

    # --- the servers

    async def Register(self, request: RegisterRequest, context: Any) -> Empty:  # noqa: N802  # the protocol's
        if self.refusals:
            self.refusals -= 1
            await context.abort(grpc.StatusCode.UNKNOWN, "not today")
        channel = aio.insecure_channel(
            f"unix:{self.plugins / request.endpoint}",
            options=(("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1)),
        )
        await DevicePluginStub(channel).GetDevicePluginOptions(Empty(), timeout=10)
        self._channels[request.resource_name] = channel
        self.registered.append(request.resource_name)
        if self.opens_streams:
            stream = asyncio.create_task(self._follow(request.resource_name, channel))
            self._streams.add(stream)
            stream.add_done_callback(self._streams.discard)
        return Empty()

    async def List(  # noqa: N802  # the protocol's
        self, request: ListPodResourcesRequest, context: Any
    ) -> ListPodResourcesResponse:
        return ListPodResourcesResponse(pod_resources=self.pods)

    async def Get(self, request: Any, context: Any) -> Any:  # noqa: N802  # the protocol's
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "nobody asks")

    async def GetAllocatableResources(self, request: Any, context: Any) -> Any:  # noqa: N802  # the protocol's
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "nobody asks")

    async def _follow(self, resource: str, channel: aio.Channel) -> None:
        with suppress(aio.AioRpcError, asyncio.CancelledError):
            async for message in DevicePluginStub(channel).ListAndWatch(Empty()):
                self.lists.setdefault(resource, []).append(list(message.devices))

    async def _serve(self, add: Any, socket: Path) -> None:
        server = aio.server()
        add(self, server)
        server.add_insecure_port(f"unix:{socket}")
        await server.start()
        self._servers.append(server)
