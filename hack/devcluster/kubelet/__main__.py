"""A kubelet's own process: `python -m devcluster.kubelet SETTINGS`."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from devcluster.containers.client import RuntimeClient
from devcluster.kubelet.folders import Folders
from devcluster.kubelet.kubelet import Kubelet
from devcluster.kubelet.settings import Settings, read
from devcluster.kubelet.streaming import StreamingServer
from gpustack_op.runtime.client import Client

READY: Final = "takes registrations"
"""What it says when plugins can register."""


def main() -> None:
    with suppress(asyncio.CancelledError):
        asyncio.run(run(read(Path(sys.argv[1]))))


async def run(settings: Settings) -> None:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    async with Client(settings.client, user_agent="kubelet") as client:
        kubelet = Kubelet(
            Path(settings.inventory),
            Folders(Path(settings.root)),
            client,
            RuntimeClient(Path(settings.runtime)),
            say=say,
            timing=settings.timing,
            port=settings.port,
            seed=settings.seed,
        )
        streaming = StreamingServer(
            kubelet.roster,
            kubelet.folders,
            port=settings.port,
            certificate=settings.serving_certificate,
            key=settings.serving_key,
        )
        await streaming.start()
        try:
            await kubelet.run(lambda: say(READY))
        finally:
            await streaming.stop()


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
