"""Calls that may never return run where they hold up nobody."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gpustack_op.agent.daemon_thread import DaemonThread, beat


async def test_an_answer_is_given_and_an_error_raised() -> None:
    thread = DaemonThread("t")
    assert await thread.within(lambda: 7, 5) == 7
    with pytest.raises(ZeroDivisionError):
        await thread.within(lambda: 1 // 0, 5)
    thread.close()


async def test_a_call_that_takes_too_long_is_given_up_and_those_behind_it_never_begin() -> None:
    thread, release, begun = DaemonThread("t"), threading.Event(), threading.Event()
    with pytest.raises(TimeoutError):
        await thread.within(lambda: release.wait(10), 0.01)
    assert thread.busy_for > 0
    with pytest.raises(TimeoutError):
        await thread.within(begun.set, 0.01)
    release.set()
    assert await thread.within(lambda: "next", 5) == "next"
    assert (begun.is_set(), thread.busy_for) == (False, 0)
    thread.close()


async def test_each_beat_is_a_new_call() -> None:
    thread, begun, go = DaemonThread("t"), threading.Event(), threading.Event()

    def work() -> float:
        begun.set()
        go.wait(10)
        beat()
        return thread.busy_for

    answer = thread.run(work)
    await asyncio.to_thread(begun.wait, 10)
    threading.Event().wait(0.05)
    before = thread.busy_for
    go.set()
    assert answer.result(10) < before
    thread.close()


def test_a_call_that_hangs_does_not_keep_the_program_from_ending() -> None:
    script = "import threading; from gpustack_op.agent.daemon_thread import DaemonThread as T\n"
    script += "T('t').run(threading.Event().wait); print('ended')"
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=30, check=True, cwd=Path(__file__).parents[2]
    )
    assert ended.stdout == b"ended\n"
