"""The kubelet's end of one device plugin.

Guarantees   What fails raises a PluginError in the real kubelet's words. Allocate and GetPreferredAllocation have no
             deadline. A message over 4 MiB, which is gRPC's own limit, ends the stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Final

import grpc
from grpc import aio

from gpustack_op.agent.proto.deviceplugin_pb2 import (
    AllocateRequest,
    AllocateResponse,
    ContainerAllocateRequest,
    ContainerPreferredAllocationRequest,
    Device,
    DevicePluginOptions,
    Empty,
    PreferredAllocationRequest,
    PreStartContainerRequest,
)
from gpustack_op.agent.proto.deviceplugin_pb2_grpc import DevicePluginStub

DIAL: Final = 10.0
"""Seconds that a plugin may take to answer the kubelet's call back."""

PRE_START: Final = 30.0
"""Seconds that PreStartContainer may take."""

CHANNEL: Final = (
    ("grpc.default_authority", "localhost"),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
)


class PluginError(Exception):
    """A call failed."""


class Plugin:
    """`stopped_at` is when the kubelet lost it, by the device manager's clock."""

    def __init__(self, resource: str, socket: Path | None = None) -> None:
        """Without a socket it stands for one that the kubelet knew before it restarted."""
        self.resource = resource
        self.options = DevicePluginOptions()
        self.stopped_at: float | None = None
        self._socket = socket
        self._channel: aio.Channel | None = None

    async def connect(self) -> None:
        """Dials and asks for the options."""
        channel = self._channel = aio.insecure_channel(f"unix:{self._socket}", options=CHANNEL)
        try:
            async with asyncio.timeout(DIAL):
                await channel.channel_ready()
        except TimeoutError:
            await self.close()
            raise PluginError("failed to dial device plugin: context deadline exceeded") from None
        try:
            self.options = await DevicePluginStub(channel).GetDevicePluginOptions(Empty())
        except aio.AioRpcError as error:
            await self.close()
            raise PluginError(f"failed to get device plugin options: {told(error)}") from error

    async def lists(self) -> AsyncIterator[Collection[Device]]:
        """Each whole list it sends, until the stream ends for whatever reason."""
        try:
            async for message in self._stub.ListAndWatch(Empty()):
                yield message.devices
        except (aio.AioRpcError, asyncio.CancelledError):
            # Closing the channel cancels the stream's call, and with it whoever reads it.
            return

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()

    async def preferred(self, available: Collection[str], must: Collection[str], size: int) -> frozenset[str]:
        request = ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=size
        )
        self._check_running()
        try:
            answer = await self._stub.GetPreferredAllocation(PreferredAllocationRequest(container_requests=[request]))
        except aio.AioRpcError as error:
            raise PluginError(f"device plugin GetPreferredAllocation rpc failed with err: {told(error)}") from error
        return frozenset(answer.container_responses[0].deviceIDs) if answer.container_responses else frozenset()

    async def allocate(self, ids: Collection[str]) -> AllocateResponse:
        self._check_running()
        request = AllocateRequest(container_requests=[ContainerAllocateRequest(devices_ids=ids)])
        try:
            return await self._stub.Allocate(request)
        except aio.AioRpcError as error:
            raise PluginError(told(error)) from error

    async def pre_start(self, ids: Collection[str]) -> None:
        self._check_running()
        try:
            await self._stub.PreStartContainer(PreStartContainerRequest(devices_ids=ids), timeout=PRE_START)
        except aio.AioRpcError as error:
            raise PluginError(f"device plugin PreStartContainer rpc failed with err: {told(error)}") from error

    @property
    def _stub(self) -> DevicePluginStub:
        if self._channel is None:
            raise PluginError(f"endpoint {self.resource} has been stopped")
        return DevicePluginStub(self._channel)

    def _check_running(self) -> None:
        if self.stopped_at is not None:
            raise PluginError(f"endpoint {self.resource} has been stopped")


def told(error: aio.AioRpcError) -> str:
    """As Go prints it, which is what people see in a Pod's status."""
    return f"rpc error: code = {_code(error.code())} desc = {error.details()}"


def _code(code: grpc.StatusCode) -> str:
    if code is grpc.StatusCode.CANCELLED:
        return "Canceled"
    return "OK" if code is grpc.StatusCode.OK else code.name.title().replace("_", "")
