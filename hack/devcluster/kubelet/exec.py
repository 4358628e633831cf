"""Runs a command beside a container for `kubectl exec`, over the WebSocket that the API server opens.

Guarantees   The command sees what the container sees. Each message begins with the number of its stream; the last one
             tells how the command ended. When either side goes away, so does the command.
Assumptions  The protocol is v5.channel.k8s.io, in which a message (255, stream) closes a stream.
"""

from __future__ import annotations

import asyncio
import os
import pty
import shutil
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from aiohttp import WSMsgType, web

from devcluster.kubelet import tethered

PROTOCOL: Final = "v5.channel.k8s.io"

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255

CHUNK: Final = 32 * 1024
"""Bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A command, and where it runs."""

    command: list[str]
    environment: Mapping[str, str]
    directory: Path
    stdin: bool = False
    terminal: bool = False


async def serve(request: web.Request, wanted: Wanted) -> web.WebSocketResponse:
    socket = web.WebSocketResponse(protocols=(PROTOCOL,), max_msg_size=0)
    await socket.prepare(request)
    program = wanted.command[0] if wanted.command else ""
    if shutil.which(program, path=wanted.environment.get("PATH")) is None:
        await _tell_end(socket, _failure(f'exec: "{program}": executable file not found in $PATH', "InternalError"))
        return socket
    session = await (_Terminal if wanted.terminal else _Pipes).open(wanted)
    feeding = asyncio.create_task(_feed(socket, session))
    try:
        await session.pump(socket)
        await _tell_end(socket, ending(await session.process.wait()))
    except (ConnectionError, RuntimeError):
        pass  # whoever asked has gone
    finally:
        feeding.cancel()
        session.kill()
        await session.process.wait()
    return socket


def ending(code: int) -> dict[str, Any]:
    """The Status that tells how a command ended; kubectl exits with the same code."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    shown = 128 - code if code < 0 else code
    causes = [{"reason": "ExitCode", "message": str(shown)}]
    return _failure(
        f"command terminated with non-zero exit code: {shown}", "NonZeroExitCode", details={"causes": causes}
    )


def _failure(message: str, reason: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {}, "status": "Failure", "message": message, "reason": reason, **more}


async def _tell_end(socket: web.WebSocketResponse, status: Mapping[str, Any]) -> None:
    await socket.send_bytes(bytes([ERROR]) + msgspec.json.encode(status))
    await socket.close()


async def _feed(socket: web.WebSocketResponse, session: _Pipes | _Terminal) -> None:
    """What comes in goes to the command; when nothing more can come, the command ends."""
    async for message in socket:
        if message.type is not WSMsgType.BINARY or not message.data:
            continue
        stream, data = message.data[0], message.data[1:]
        if stream == STDIN:
            await session.write(data)
        elif stream == CLOSE and data[:1] == bytes([STDIN]):
            await session.end_input()
    session.kill()


class _Pipes:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    @classmethod
    async def open(cls, wanted: Wanted) -> _Pipes:
        pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        return cls(await _spawn(wanted, stdin=pipe if wanted.stdin else nothing, stdout=pipe, stderr=pipe))

    async def pump(self, socket: web.WebSocketResponse) -> None:
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        async with asyncio.TaskGroup() as group:
            group.create_task(_copy(self.process.stdout, STDOUT, socket))
            group.create_task(_copy(self.process.stderr, STDERR, socket))

    async def write(self, data: bytes) -> None:
        if self.process.stdin is not None:
            with suppress(ConnectionError):
                self.process.stdin.write(data)
                await self.process.stdin.drain()

    async def end_input(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()

    def kill(self) -> None:
        _kill(self.process)


class _Terminal:
    def __init__(self, process: asyncio.subprocess.Process, master: int) -> None:
        self.process = process
        self._master = master

    @classmethod
    async def open(cls, wanted: Wanted) -> _Terminal:
        master, slave = pty.openpty()
        try:
            process = await _spawn(wanted, stdin=slave, stdout=slave, stderr=slave)
        except OSError:
            os.close(master)
            raise
        finally:
            os.close(slave)
        return cls(process, master)

    async def pump(self, socket: web.WebSocketResponse) -> None:
        while True:
            try:
                data = await asyncio.to_thread(os.read, self._master, CHUNK)
            except OSError:  # the command has closed its end
                return
            if not data:
                return
            await socket.send_bytes(bytes([STDOUT]) + data)

    async def write(self, data: bytes) -> None:
        with suppress(OSError):
            await asyncio.to_thread(os.write, self._master, data)

    async def end_input(self) -> None:
        await self.write(b"\x04")

    def kill(self) -> None:
        _kill(self.process)


async def _copy(reader: asyncio.StreamReader, stream: int, socket: web.WebSocketResponse) -> None:
    while data := await reader.read(CHUNK):
        await socket.send_bytes(bytes([stream]) + data)


async def _spawn(wanted: Wanted, **streams: Any) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", tethered.__file__, str(os.getpid())),
        *wanted.command,
        env=dict(wanted.environment),
        cwd=wanted.directory,
        start_new_session=True,
        **streams,
    )


def _kill(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
