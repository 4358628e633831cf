"""The socket where plugins register, and the streams over which they tell their devices.

Guarantees   As the real kubelet: version, name, dial back, options, and only after the answer the stream. The stream
             of a plugin that ends closes whatever connection its *resource* has by then, so also a successor's.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import grpc
from grpc import aio

from devcluster.kubelet.devices import Devices
from devcluster.kubelet.folders import Folders
from devcluster.kubelet.plugin import Plugin, PluginError
from gpustack_op.agent.proto.deviceplugin_pb2 import Empty, RegisterRequest
from gpustack_op.agent.proto.deviceplugin_pb2_grpc import RegistrationServicer, add_RegistrationServicer_to_server

VERSION: Final = "v1beta1"

Context = aio.ServicerContext[RegisterRequest, Awaitable[Empty]]

_DOMAIN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_EXTENDED: Final = re.compile(rf"(?=[^/]{{1,244}}/){_DOMAIN}/[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?")


def is_extended(resource: str) -> bool:
    """Whether a resource is somebody else's than Kubernetes': it has a domain, and another one."""
    return bool(_EXTENDED.fullmatch(resource)) and "kubernetes.io/" not in resource and resource[:9] != "requests."


class Registrar(RegistrationServicer):
    def __init__(self, folders: Folders, devices: Devices, say: Callable[[str], None]) -> None:
        self._folders = folders
        self._devices = devices
        self._say = say
        self._plugins: dict[str, Plugin] = {}
        self._streams: set[asyncio.Task[None]] = set()
        self._server: aio.Server | None = None

    async def start(self) -> None:
        """Removes every socket in the folder: nothing else tells a plugin that the kubelet has restarted."""
        for path in self._folders.plugins.iterdir():
            if path.is_socket():
                path.unlink()
        server = self._server = aio.server()
        add_RegistrationServicer_to_server(self, server)
        server.add_insecure_port(f"unix:{self._folders.registration}")
        await server.start()

    async def stop(self) -> None:
        for stream in self._streams:
            stream.cancel()
        await asyncio.gather(*self._streams, return_exceptions=True)
        for plugin in self._plugins.values():
            await plugin.close()
        if self._server is not None:
            await self._server.stop(None)

    async def Register(self, request: RegisterRequest, context: Context) -> Empty:  # noqa: N802  # the protocol's
        refusal = _refusal(request)
        if refusal:
            await context.abort(grpc.StatusCode.UNKNOWN, refusal)
        plugin = Plugin(request.resource_name, self._folders.plugins / request.endpoint)
        self._plugins[plugin.resource] = plugin
        try:
            await plugin.connect()
        except PluginError as error:
            self._plugins.pop(plugin.resource, None)
            await context.abort(grpc.StatusCode.UNKNOWN, str(error))
        self._devices.connected(plugin)
        self._say(f"{plugin.resource} is registered at {request.endpoint}")
        stream = asyncio.create_task(self._follow(plugin), name=f"lists of {plugin.resource}")
        self._streams.add(stream)
        stream.add_done_callback(self._streams.discard)
        return Empty()

    async def _follow(self, plugin: Plugin) -> None:
        with suppress(PluginError):
            async for devices in plugin.lists():
                self._devices.listed(plugin.resource, devices)
        present = self._plugins.pop(plugin.resource, None)
        self._say(f"the stream of {plugin.resource} has ended")
        if present is not None:
            await present.close()
            self._devices.disconnected(plugin.resource)


def _refusal(request: RegisterRequest) -> str:
    if request.version != VERSION:
        return (
            f'requested API version "{request.version}" is not supported by kubelet. Supported version is ["{VERSION}"]'
        )
    if not is_extended(request.resource_name):
        return f'the ResourceName "{request.resource_name}" is invalid'
    return ""
