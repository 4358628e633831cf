"""A cluster in a process of its own, which outlives the command that started it.

Guarantees   `up` returns when the cluster is ready, or raises with the reason and leaves nothing. `down` leaves no
             process, also when the supervisor was killed before it could clean up.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from devcluster import state
from devcluster.cluster import Scope
from devcluster.control import call
from devcluster.errors import AlreadyUpError, ClusterError
from devcluster.paths import REPOSITORY, Layout

STOP_TIMEOUT: Final = 40.0
"""Seconds that an orderly stop may take before it is cut short."""


class Report(msgspec.Struct):
    """A line from a starting supervisor to whoever waits for it."""

    text: str
    ready: bool = False
    failed: bool = False


def up(
    layout: Layout,
    *,
    scope: Scope = Scope.PLATFORM,
    machines: Sequence[Path] = (),
    say: Callable[[str], None],
    attached: bool = False,
) -> subprocess.Popen[bytes]:
    """Starts the cluster and gives its supervisor. An `attached` one ends when we do, however we end."""
    if state.is_up(layout):
        raise AlreadyUpError(f'cluster "{layout.name}" is up; end it with: hack/dev --name {layout.name} down')
    layout.logs.mkdir(parents=True, exist_ok=True)
    reading, writing = os.pipe()
    options = [f"--name={layout.name}", f"--scope={scope.value}", f"--report={writing}"]
    if attached:
        options.append("--attached")
    with layout.log(state.SUPERVISOR).open("wb") as log, os.fdopen(reading, "rb") as reports:
        process = subprocess.Popen(
            [sys.executable, "-m", "devcluster.supervise", *options, *(str(each.resolve()) for each in machines)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": f"{REPOSITORY / 'hack'}:{REPOSITORY}"},
            pass_fds=[writing],
            start_new_session=True,
        )
        os.close(writing)
        try:
            _until_ready(layout, reports, say)
        except BaseException:
            process.terminate()
            process.wait()
            raise
    return process


def down(layout: Layout, say: Callable[[str], None]) -> None:
    """Ends the cluster, whatever state it is in. Without one it does nothing."""
    if state.is_up(layout):
        try:
            asyncio.run(call(layout, "stop"))
        except ClusterError:
            _signal_holder(layout, signal.SIGTERM)
        if not _gone(layout, STOP_TIMEOUT):
            say("the supervisor does not end; killing it")
            _signal_holder(layout, signal.SIGKILL)
            _gone(layout, STOP_TIMEOUT)
    left = state.sweep(layout)
    if left:
        say(f"ended what a dead supervisor left: {', '.join(left)}")


def _until_ready(layout: Layout, reports: BinaryIO, say: Callable[[str], None]) -> None:
    for line in reports:
        report = msgspec.json.decode(line, type=Report)
        if report.failed:
            raise ClusterError(f"{report.text}\nall logs are in {layout.logs}")
        if report.ready:
            return
        say(report.text)
    raise ClusterError(f"the supervisor ended while starting; see {layout.log(state.SUPERVISOR)}")


def _signal_holder(layout: Layout, number: int) -> None:
    holder = state.holder(layout)
    if holder is not None and holder.alive:
        with suppress(ProcessLookupError):
            os.kill(holder.pid, number)


def _gone(layout: Layout, seconds: float) -> bool:
    """Waits for the holder's end, which comes a moment after it has given the name back."""
    deadline = time.monotonic() + seconds
    holder = state.holder(layout)
    while state.is_up(layout) or (holder is not None and holder.alive):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
