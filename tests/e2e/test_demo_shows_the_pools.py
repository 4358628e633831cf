"""`hack/demo` shows the walkthrough's first tables to whoever types nothing else, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from devcluster.paths import NAME_VARIABLE, REPOSITORY, Layout
from devcluster.process import Identity
from tests.controlplane.processes import of_cluster
from tests.e2e.tables import Table, expected, read_table
from tests.e2e.waiting import eventually
from tests.e2e.walkthrough import TABLES


class Demo:
    """The command, with a cluster of its own."""

    def __init__(self, name: str) -> None:
        self.layout = Layout.of(name)

    async def start(self, *arguments: str, command: str = "demo") -> Process:
        environment = {**os.environ, NAME_VARIABLE: self.layout.name}
        program = REPOSITORY / "hack" / command
        # Where the tests run as a shell's background job they ignore SIGINT, and so would what they start.
        line = ("env", "--default-signal=INT", str(program), *arguments)
        return await asyncio.create_subprocess_exec(*line, stdout=PIPE, stderr=PIPE, env=environment)

    async def run(self, *arguments: str, command: str = "demo") -> tuple[int | None, str, str]:
        return await ended(await self.start(*arguments, command=command))

    def pid(self, part: str) -> int:
        """0 as long as the part has not been started."""
        identity = Identity.read(Path(self.layout.pids / part))
        return identity.pid if identity else 0

    async def started(self, part: str) -> int:
        async def pid() -> int:
            return self.pid(part)

        return await eventually(pid)


async def ended(process: Process) -> tuple[int | None, str, str]:
    """Exit status, output, and what was said besides."""
    output, said = await process.communicate()
    return process.returncode, output.decode(), said.decode()


def tables(output: str) -> dict[str, Table]:
    """By what was asked of kubectl."""
    blocks = output.split("$ kubectl get ")[1:]
    named = (block.split("\n\n", 1)[0].split("\n", 1) for block in blocks)
    return {kind: read_table(table) for kind, table in named}


@pytest.fixture
async def demo() -> AsyncIterator[Demo]:
    made = Demo(f"test-demo-{os.getpid()}")
    try:
        yield made
    finally:
        await made.run("--down")


async def test_the_demo_shows_five_tables_stays_up_and_ends_when_told(demo: Demo) -> None:
    status, output, said = await demo.run()
    assert status == 0, said
    assert tables(output) == {kind: expected("initial", kind) for kind in TABLES}

    status, again, said = await demo.run()
    assert (status, tables(again)) == (0, tables(output))
    assert "the demo is up already" in said

    status, typed, _ = await demo.run("kubectl", "get", "instancetypes", command="dev")
    assert (status, read_table(typed)) == (0, expected("initial", "instancetype"))

    status, _, said = await demo.run("--down")
    assert (status, said) == (0, "the demo has ended\n")
    assert of_cluster(demo.layout) == []


async def test_ending_a_demo_that_is_not_up_is_no_failure(demo: Demo) -> None:
    assert await demo.run("--down") == (0, "", "no demo is up\n")


async def test_a_part_that_ends_while_the_demo_starts_is_named_and_nothing_stays(demo: Demo) -> None:
    process = await demo.start()
    os.kill(await demo.started("etcd"), signal.SIGKILL)
    status, output, said = await ended(process)
    assert (status, output) == (1, "")
    assert "etcd killed by SIGKILL while starting; its last lines:" in said
    assert of_cluster(demo.layout) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupted_demo_leaves_nothing(number: signal.Signals, demo: Demo) -> None:
    process = await demo.start()
    await demo.started("etcd")
    process.send_signal(number)
    status, _, said = await ended(process)
    assert (status, said.splitlines()[-1]) == (130, "hack/demo: interrupted")
    assert of_cluster(demo.layout) == []
