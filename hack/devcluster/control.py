"""Talking to a running cluster: a Unix socket in its folder, one line of JSON each way.

Guarantees   A failed command answers with its error's text, and the cluster goes on.
Assumptions  Commands are few and come from people and tests, so each has a connection of its own.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from devcluster.errors import ClusterError, NotUpError
from devcluster.paths import Layout

LONGEST_LINE: Final = 16 * 2**20
"""Bytes; a status carries the tail of every log."""

Commands = Mapping[str, Callable[..., Awaitable[Any]]]


class Request(msgspec.Struct):
    command: str
    arguments: dict[str, Any] = {}


class Answer(msgspec.Struct):
    result: Any = None
    error: str = ""


class ControlServer:
    """Carries out the commands a cluster is given, by name."""

    def __init__(self, layout: Layout, commands: Commands) -> None:
        self._layout = layout
        self._commands = commands

    async def serve(self) -> asyncio.Server:
        return await serve_socket(self._layout.socket, self._commands)


async def call(layout: Layout, command: str, **arguments: Any) -> Any:
    """Lets the cluster do something, and waits until it has."""
    try:
        return await call_socket(layout.socket, command, **arguments)
    except ConnectionResetError as error:
        raise NotUpError(
            f'cluster "{layout.name}" went away before it answered; see {layout.log("supervisor")}'
        ) from error
    except OSError as error:
        raise NotUpError(
            f'cluster "{layout.name}" is not up; start it with: hack/dev --name {layout.name} up'
        ) from error


async def serve_socket(socket: Path, commands: Commands) -> asyncio.Server:
    """Arguments and results of the commands are JSON."""

    async def carry_out(request: Request) -> Answer:
        if request.command not in commands:
            return Answer(error=f"no command is named {request.command}")
        try:
            return Answer(await commands[request.command](**request.arguments))
        except Exception as error:
            # The server must outlive a command that fails, whatever it fails with.
            return Answer(error=str(error) or repr(error))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = msgspec.json.decode(await reader.readline(), type=Request)
            writer.write(msgspec.json.encode(await carry_out(request)) + b"\n")
            await writer.drain()
        except (OSError, msgspec.MsgspecError):
            pass  # whoever asked is gone, or was not one of ours
        finally:
            writer.close()

    with _short_path(socket) as path:
        return await asyncio.start_unix_server(answer, path, limit=LONGEST_LINE)


async def call_socket(socket: Path, command: str, **arguments: Any) -> Any:
    """An OSError says that nobody listens, a ConnectionResetError that nobody does any more."""
    with _short_path(socket) as path:
        reader, writer = await asyncio.open_unix_connection(path, limit=LONGEST_LINE)
    try:
        writer.write(msgspec.json.encode(Request(command, arguments)) + b"\n")
        line = await reader.readline()
    finally:
        writer.close()
    if not line:
        raise ConnectionResetError(f"{socket}: no answer")
    answer = msgspec.json.decode(line, type=Answer)
    if answer.error:
        raise ClusterError(answer.error)
    return answer.result


@contextmanager
def _short_path(socket: Path) -> Iterator[str]:
    """The kernel takes 107 bytes for a socket's path, and a checkout may lie deeper than that."""
    folder = os.open(socket.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{socket.name}"
    finally:
        os.close(folder)
