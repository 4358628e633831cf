"""The process that owns a cluster which outlives its command. `daemon.up` starts it; people do not.

It reports its progress on a pipe until the cluster is ready, then answers on the cluster's socket. SIGTERM and SIGINT
end the cluster in good order, also while it is still starting.
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

import msgspec

from devcluster.build import built
from devcluster.cluster import Cluster, Scope
from devcluster.control import Commands, ControlServer
from devcluster.daemon import Report
from devcluster.paths import Layout
from devcluster.process import end_with_parent


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.attached:
        end_with_parent()
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
        await asked_to_stop.wait()


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
    parser.add_argument("--attached", action="store_true", help="end when the parent process dies")
    parser.add_argument("machines", nargs="*", type=Path)
    return parser


if __name__ == "__main__":
    sys.exit(main())
