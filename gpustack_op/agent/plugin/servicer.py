"""One device plugin as the kubelet calls it.

Guarantees   Each stream gets the whole list as soon as it is known, and again when it differs from the last it got,
             never otherwise: every message makes the kubelet write its checkpoint. A refusal carries its code and its
             sentence; what was not foreseen is told as internal, with the details in the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any, NoReturn, Protocol

from grpc import aio

from gpustack_op.agent.injection.base import Injection
from gpustack_op.agent.plugin.health import Listed
from gpustack_op.agent.plugin.news import News
from gpustack_op.agent.plugin.refusal import Code, RefusalError
from gpustack_op.agent.proto.deviceplugin_pb2 import (
    AllocateRequest,
    AllocateResponse,
    CDIDevice,
    ContainerAllocateResponse,
    ContainerPreferredAllocationResponse,
    Device,
    DevicePluginOptions,
    DeviceSpec,
    Empty,
    ListAndWatchResponse,
    Mount,
    NUMANode,
    PreferredAllocationRequest,
    PreferredAllocationResponse,
    PreStartContainerRequest,
    PreStartContainerResponse,
    TopologyInfo,
)
from gpustack_op.agent.proto.deviceplugin_pb2_grpc import DevicePluginServicer
from gpustack_op.runtime.logging import logger

Context = aio.ServicerContext[Any, Any]

log = logger("plugin")


class Desk(Protocol):
    """What answers for one resource."""

    resource: str
    news: News

    def listed(self) -> tuple[Listed, ...] | None: ...
    async def preferred(self, available: list[str], must: list[str], size: int) -> list[str]: ...
    async def allocate(self, ids: list[str]) -> Injection: ...


class Servicer(DevicePluginServicer):
    """`changed` is set when a stream opens or ends; `streams` are open now, `opened` ever were."""

    def __init__(self, desk: Desk) -> None:
        self.changed = asyncio.Event()
        self.streams = 0
        self.opened = 0
        self._desk = desk

    async def GetDevicePluginOptions(  # noqa: N802  # the protocol's
        self, request: Empty, context: Context
    ) -> DevicePluginOptions:
        return DevicePluginOptions(get_preferred_allocation_available=True)

    async def ListAndWatch(  # noqa: N802  # the protocol's
        self, request: Empty, context: Context
    ) -> AsyncIterator[ListAndWatchResponse]:
        self.streams += 1
        self.opened += 1
        self.changed.set()
        try:
            sent, number = None, -1
            while True:
                number = await self._desk.news.after(number)
                present = self._desk.listed()
                if present is not None and present != sent:
                    sent = present
                    yield message(present)
        finally:
            self.streams -= 1
            self.changed.set()

    async def GetPreferredAllocation(  # noqa: N802  # the protocol's
        self, request: PreferredAllocationRequest, context: Context
    ) -> PreferredAllocationResponse:
        if not request.container_requests:
            return PreferredAllocationResponse()
        asked = request.container_requests[0]
        ids = await self._desk.preferred(
            list(asked.available_deviceIDs), list(asked.must_include_deviceIDs), asked.allocation_size
        )
        return PreferredAllocationResponse(container_responses=[ContainerPreferredAllocationResponse(deviceIDs=ids)])

    async def Allocate(  # noqa: N802  # the protocol's
        self, request: AllocateRequest, context: Context
    ) -> AllocateResponse:
        ids = list(request.container_requests[0].devices_ids) if request.container_requests else []
        try:
            return AllocateResponse(container_responses=[response(await self._desk.allocate(ids))])
        except RefusalError as refused:
            log.warning("allocate.refused", resource=self._desk.resource, code=refused.code.name, why=refused.sentence)
            await _abort(context, refused.code, refused.sentence)
        except Exception as error:
            log.exception("allocate.failed", resource=self._desk.resource)
            await _abort(context, Code.INTERNAL, f"{type(error).__name__}: {error}")

    async def PreStartContainer(  # noqa: N802  # the protocol's
        self, request: PreStartContainerRequest, context: Context
    ) -> PreStartContainerResponse:
        return PreStartContainerResponse()


async def _abort(context: Context, code: Code, sentence: str) -> NoReturn:
    abort: Awaitable[NoReturn] = context.abort(code, sentence)
    await abort
    raise AssertionError("an aborted call has ended")


def message(listed: tuple[Listed, ...]) -> ListAndWatchResponse:
    return ListAndWatchResponse(devices=[_device(one) for one in listed])


def _device(one: Listed) -> Device:
    health = "Healthy" if one.healthy else "Unhealthy"
    if one.numa is None:
        return Device(ID=one.id, health=health)
    return Device(ID=one.id, health=health, topology=TopologyInfo(nodes=[NUMANode(ID=one.numa)]))


def response(injection: Injection) -> ContainerAllocateResponse:
    return ContainerAllocateResponse(
        envs=dict(injection.variables),
        mounts=[
            Mount(container_path=one.container_path, host_path=one.host_path, read_only=one.read_only)
            for one in injection.mounts
        ],
        devices=[
            DeviceSpec(container_path=one.container_path, host_path=one.host_path, permissions=one.permissions)
            for one in injection.devices
        ],
        cdi_devices=[CDIDevice(name=name) for name in injection.cdi_devices],
    )
