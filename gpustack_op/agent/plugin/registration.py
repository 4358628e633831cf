"""Keeps one resource registered with the kubelet.

Guarantees   A generation is a socket with a name of its own, a server on it, and a registration the kubelet accepted.
             A new one begins when the socket is gone or another's, when the stream of the list has ended, or was not
             opened within `STREAM` seconds of the registration: that is how a restart of the kubelet, and an older
             plugin that ends after us, show. Whatever fails is told once and tried again every second, for ever.
Assumptions  The kubelet looks a plugin up by its resource and closes the newest connection when any older stream ends:
             an old generation has ended before the next one registers.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from grpc import aio

from gpustack_op.agent.plugin.kubelet import AUTHORITY
from gpustack_op.agent.plugin.servicer import Desk, Servicer
from gpustack_op.agent.proto.deviceplugin_pb2 import DevicePluginOptions, RegisterRequest
from gpustack_op.agent.proto.deviceplugin_pb2_grpc import RegistrationStub, add_DevicePluginServicer_to_server
from gpustack_op.runtime.clock import elapsed
from gpustack_op.runtime.logging import logger

VERSION: Final = "v1beta1"
KUBELET_SOCKET: Final = "kubelet.sock"

PERIOD: Final = 1.0
"""Seconds between two looks at the socket, and between two tries."""

REGISTER: Final = 15.0
"""Seconds for a registration: the kubelet dials back, for which it allows itself 10."""

STREAM: Final = 10.0
"""Seconds after which a kubelet that has not opened the stream never will."""

GRACE: Final = 1.0
"""Seconds that calls in progress have when a generation ends."""

log = logger("registration")


class RegistrationError(Exception):
    """A generation could not be brought up."""


@dataclass(frozen=True, slots=True)
class Timing:
    period: float = PERIOD
    stream: float = STREAM


USUAL: Final = Timing()


class Registration:
    """`on_change` is told whether the kubelet listens to the list now. `lead` begins the socket's name."""

    def __init__(
        self,
        plugins: Path,
        lead: str,
        desk: Desk,
        *,
        on_change: Callable[[bool], None] = lambda _: None,
        timing: Timing = USUAL,
    ) -> None:
        self.generations = 0
        self._plugins = plugins
        self._lead = lead
        self._desk = desk
        self._on_change = on_change
        self._timing = timing
        self._problem = ""

    async def run(self, stop: asyncio.Event) -> None:
        stopped = asyncio.create_task(stop.wait())
        try:
            while not stopped.done():
                await self._generation(stopped)
        finally:
            stopped.cancel()

    async def _generation(self, stopped: asyncio.Task[bool]) -> None:
        socket = self._plugins / f"{self._lead}.{secrets.token_hex(4)}.sock"
        servicer = Servicer(self._desk)
        server: aio.Server | None = None
        try:
            server = await _served(servicer, socket)
            inode = socket.stat().st_ino
            await self._register(socket)
            self.generations += 1
            self._told("")
            await self._watched(socket, inode, servicer, stopped)
        except (RegistrationError, OSError) as error:
            self._told(str(error))
            await asyncio.wait((stopped,), timeout=self._timing.period)
        finally:
            self._on_change(False)
            if server is not None:
                await server.stop(GRACE)
            with suppress(OSError):
                socket.unlink(missing_ok=True)

    async def _register(self, socket: Path) -> None:
        request = RegisterRequest(
            version=VERSION,
            endpoint=socket.name,
            resource_name=self._desk.resource,
            options=DevicePluginOptions(get_preferred_allocation_available=True),
        )
        options = (AUTHORITY, ("grpc.use_local_subchannel_pool", 1))
        try:
            async with aio.insecure_channel(f"unix:{self._plugins / KUBELET_SOCKET}", options=options) as channel:
                await RegistrationStub(channel).Register(request, timeout=REGISTER)
        except aio.AioRpcError as error:
            raise RegistrationError(f"the kubelet has not registered it: {error.details()}") from error

    async def _watched(self, socket: Path, inode: int, servicer: Servicer, stopped: asyncio.Task[bool]) -> None:
        """Returns when this generation is over."""
        registered_at, is_open = elapsed(), False
        while not stopped.done():
            if is_open != bool(servicer.streams):
                is_open = bool(servicer.streams)
                self._on_change(is_open)
            reason = _over(socket, inode) or _unheard(servicer, elapsed() - registered_at, self._timing.stream)
            if reason:
                log.info("plugin.registers_again", resource=self._desk.resource, why=reason)
                return
            await _either(stopped, servicer.changed, self._timing.period)

    def _told(self, problem: str) -> None:
        """Once when it begins to fail, once when it works again."""
        if problem and not self._problem:
            log.warning("plugin.unregistered", resource=self._desk.resource, error=problem)
        elif not problem:
            log.info("plugin.registered", resource=self._desk.resource)
        self._problem = problem


async def _either(stopped: asyncio.Task[bool], changed: asyncio.Event, seconds: float) -> None:
    """Until one of them, or so many seconds."""
    waiting = asyncio.create_task(changed.wait())
    try:
        await asyncio.wait((stopped, waiting), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        changed.clear()


async def _served(servicer: Servicer, socket: Path) -> aio.Server:
    server = aio.server(options=(("grpc.so_reuseport", 0),))
    add_DevicePluginServicer_to_server(servicer, server)
    if not socket.parent.is_dir():
        raise RegistrationError(f"{socket.parent} is not there; the kubelet makes it when it starts")
    try:
        server.add_insecure_port(f"unix:{socket}")
    except RuntimeError as error:
        raise RegistrationError(f"{socket} cannot be listened on: {error}") from error
    await server.start()
    return server


def _over(socket: Path, inode: int) -> str:
    try:
        return "" if socket.stat().st_ino == inode else "the socket is another's"
    except OSError:
        return "the socket is gone"


def _unheard(servicer: Servicer, seconds: float, patience: float) -> str:
    if servicer.streams:
        return ""
    if servicer.opened:
        return "the stream has ended"
    return "the stream was not opened" if seconds > patience else ""
