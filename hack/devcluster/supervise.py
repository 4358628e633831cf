"""The process that owns a cluster which outlives its command. `daemon.up` starts it; people do not.

It reports its progress on a pipe until the cluster is ready, then answers on the cluster's socket. SIGTERM and SIGINT
end the cluster in good order, also while it is still starting; so does the end of the command that waits for it, and
the removal of the cluster's folder, without which nobody could end it any more.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from devcluster.build import built
from devcluster.cluster import Cluster, Scope
from devcluster.control import Commands, ControlServer
from devcluster.daemon import Report
from devcluster.paths import Layout
from devcluster.process import end_with_parent

FOLDER_POLL: Final = 2.0
"""Seconds between two looks at whether the cluster's folder is still there."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    end_with_parent(True)
    report = _Reports(options.report)
    try:
        asyncio.run(_supervise(options, report))
    except asyncio.CancelledError:
        return 0
    except Exception as error:
        report.send(Report(str(error) or repr(error), failed=True))
        raise
    return 0


async def _supervise(options: argparse.Namespace, report: _Reports) -> None:
    _cancel_on_signals()
    cluster = Cluster(
        Layout.of(options.name),
        built(),
        machines=options.machines,
        scope=Scope(options.scope),
        say=report.say,
    )
    asked_to_stop = asyncio.Event()
    async with cluster, await ControlServer(cluster.layout, _commands(cluster, asked_to_stop)).serve():
        report.send(Report("ready", ready=True))
        report.close()
        end_with_parent(options.attached)
        watch = asyncio.create_task(_stop_when_removed(cluster.layout.lock, asked_to_stop))
        await asked_to_stop.wait()
        watch.cancel()


async def _stop_when_removed(file: Path, stop: asyncio.Event) -> None:
    """Also when another file has taken its place."""
    descriptor = os.open(file, os.O_PATH)
    while True:
        if not os.fstat(descriptor).st_nlink:
            stop.set()
            return
        await asyncio.sleep(FOLDER_POLL)


def _commands(cluster: Cluster, asked_to_stop: asyncio.Event) -> Commands:
    async def status() -> object:
        return cluster.status()

    async def stop() -> None:
        asked_to_stop.set()

    async def add_machine(file: str) -> str:
        return await cluster.add_machine(Path(file))

    return {
        "status": status,
        "stop": stop,
        "restart": cluster.restart,
        "stop_part": cluster.stop_part,
        "kill": cluster.kill,
        "start_operator": cluster.start_operator,
        "start_agent": cluster.start_agent,
        "add_machine": add_machine,
        "remove_machine": cluster.remove_machine,
    }


def _cancel_on_signals() -> None:
    """The first signal cancels; a further one must not cut the cleaning up short."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def cancel() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, lambda: None)
        task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, cancel)


class _Reports:
    """The pipe to whoever waits. That nobody waits any more is no reason to fail."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)
        self.send(Report(text))

    def send(self, report: Report) -> None:
        if self._descriptor is not None:
            with suppress(OSError):
                os.write(self._descriptor, msgspec.json.encode(report) + b"\n")

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="devcluster.supervise")
    parser.add_argument("--name", required=True)
    parser.add_argument("--scope", required=True, choices=[scope.value for scope in Scope])
    parser.add_argument("--report", required=True, type=int, help="file descriptor of the pipe to report on")
    parser.add_argument("--attached", action="store_true", help="end with the parent also when the cluster is up")
    parser.add_argument("machines", nargs="*", type=Path)
    return parser


if __name__ == "__main__":
    sys.exit(main())
