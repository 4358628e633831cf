"""A device plugin that does as it is told and remembers what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import grpc
from grpc import aio

from gpustack_op.agent.proto.deviceplugin_pb2 import (
    AllocateRequest,
    AllocateResponse,
    ContainerAllocateResponse,
    ContainerPreferredAllocationResponse,
    Device,
    DevicePluginOptions,
    Empty,
    ListAndWatchResponse,
    PreferredAllocationRequest,
    PreferredAllocationResponse,
    PreStartContainerRequest,
    PreStartContainerResponse,
    RegisterRequest,
)
from gpustack_op.agent.proto.deviceplugin_pb2_grpc import (
    DevicePluginServicer,
    RegistrationStub,
    add_DevicePluginServicer_to_server,
)

Context = aio.ServicerContext[Any, Any]
Answer = Callable[[list[str]], ContainerAllocateResponse | None]

HEALTHY, SICK = "Healthy", "Unhealthy"


def devices(*ids: str, health: str = HEALTHY) -> list[Device]:
    return [Device(ID=name, health=health) for name in ids]


class FakePlugin(DevicePluginServicer):
    """`calls` are what was asked of it in order: a name, and the ids."""

    def __init__(self, folder: Path, resource: str = "example.com/card", *, endpoint: str = "card.sock") -> None:
        self.resource = resource
        self.endpoint = endpoint
        self.options = DevicePluginOptions()
        self.calls: list[tuple[str, list[str]]] = []
        self.preferred_sizes: list[int] = []
        self.prefers: list[str] | None = None
        self.answer: Answer = lambda ids: ContainerAllocateResponse(envs={"IDS": ",".join(sorted(ids))})
        self.refuses = ""
        self.holds: Callable[[], Awaitable[None]] | None = None
        self.stream_ended = asyncio.Event()
        self._folder = folder
        self._lists: asyncio.Queue[list[Device] | None] = asyncio.Queue()
        self._server: aio.Server | None = None

    def offer(self, offered: Iterable[Device]) -> None:
        """Sends a whole list, now or when somebody listens."""
        self._lists.put_nowait([*offered])

    def end_stream(self) -> None:
        self._lists.put_nowait(None)

    async def serve(self) -> None:
        """On a new socket."""
        await self.stop()
        socket = self._folder / self.endpoint
        socket.unlink(missing_ok=True)
        server = self._server = aio.server()
        add_DevicePluginServicer_to_server(self, server)
        server.add_insecure_port(f"unix:{socket}")
        await server.start()

    async def register(self, *, version: str = "v1beta1", options: DevicePluginOptions | None = None) -> None:
        async with aio.insecure_channel(f"unix:{self._folder / 'kubelet.sock'}") as channel:
            request = RegisterRequest(
                version=version, endpoint=self.endpoint, resource_name=self.resource, options=options
            )
            await RegistrationStub(channel).Register(request, timeout=10)

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    def asked(self, name: str) -> list[list[str]]:
        return [sorted(ids) for call, ids in self.calls if call == name]

    async def GetDevicePluginOptions(self, request: Empty, context: Context) -> DevicePluginOptions:  # noqa: N802
        self.calls.append(("options", []))
        return self.options

    async def ListAndWatch(self, request: Empty, context: Context) -> AsyncIterator[ListAndWatchResponse]:  # noqa: N802
        self.calls.append(("lists", []))
        self.stream_ended.clear()
        try:
            while (offered := await self._lists.get()) is not None:
                yield ListAndWatchResponse(devices=offered)
        finally:
            self.stream_ended.set()

    async def GetPreferredAllocation(  # noqa: N802
        self, request: PreferredAllocationRequest, context: Context
    ) -> PreferredAllocationResponse:
        asked = request.container_requests[0]
        self.calls.append(("preferred", list(asked.available_deviceIDs)))
        self.calls.append(("must", list(asked.must_include_deviceIDs)))
        self.preferred_sizes.append(asked.allocation_size)
        if self.prefers is None:
            await context.abort(grpc.StatusCode.INTERNAL, "no idea")
        return PreferredAllocationResponse(
            container_responses=[ContainerPreferredAllocationResponse(deviceIDs=self.prefers)]
        )

    async def Allocate(self, request: AllocateRequest, context: Context) -> AllocateResponse:  # noqa: N802
        ids = list(request.container_requests[0].devices_ids)
        self.calls.append(("allocate", ids))
        if self.holds is not None:
            await self.holds()
        if self.refuses:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, self.refuses)
        answer = self.answer(ids)
        return AllocateResponse(container_responses=[answer] if answer is not None else [])

    async def PreStartContainer(  # noqa: N802
        self, request: PreStartContainerRequest, context: Context
    ) -> PreStartContainerResponse:
        self.calls.append(("start", list(request.devices_ids)))
        if self.refuses:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, self.refuses)
        return PreStartContainerResponse()
