"""The runtime's own process: `python -m devcluster.containers SOCKET`. All containers end with it."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec

from devcluster.containers.interface import Snapshot, Specification
from devcluster.containers.runtime import ProcessRuntime
from devcluster.control import Commands, serve_socket

READY = "listening"


def commands(runtime: ProcessRuntime) -> Commands:
    async def start(specification: dict[str, Any]) -> None:
        await runtime.start(msgspec.convert(specification, Specification))

    async def snapshot(node: str, after: int) -> Snapshot:
        return await runtime.snapshot(node, after)

    return {"start": start, "stop": runtime.stop, "remove": runtime.remove, "snapshot": snapshot}


async def run(socket: Path) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    runtime = ProcessRuntime()
    server = await serve_socket(socket, commands(runtime))
    print(READY, flush=True)
    await stop.wait()
    server.close()
    await runtime.close()


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1])))
