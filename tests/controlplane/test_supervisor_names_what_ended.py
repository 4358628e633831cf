"""The supervisor with small shell programs in the place of a cluster's parts."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from devcluster.errors import ClusterError, PartError, UnknownPartError
from devcluster.paths import Layout
from devcluster.probe import at_once, says
from devcluster.process import Command, Identity, end_leftovers
from devcluster.supervisor import PartStatus, Supervisor
from tests.controlplane.processes import in_group
from tests.waiting import until

SLEEPER = "echo ready; exec sleep 600"
STUBBORN = "trap '' TERM; echo ready; while true; do sleep 0.1; done"


def shell(script: str, *, part: str = "part", stage: int = 0, grace: float = 5, ready_within: float = 20) -> Command:
    return Command(part=part, arguments=["sh", "-c", script], stage=stage, grace=grace, ready_within=ready_within)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout.of("shells", state=tmp_path)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
async def supervisor(layout: Layout, said: list[str]) -> AsyncIterator[Supervisor]:
    made = Supervisor(layout, said.append)
    yield made
    await made.stop_all()


def pid_of(layout: Layout, part: str = "part") -> int:
    identity = Identity.read(layout.pids / part)
    assert identity is not None
    return identity.pid


async def test_a_part_that_dies_is_named_once_with_its_last_lines(supervisor: Supervisor, said: list[str]) -> None:
    await supervisor.start(shell(SLEEPER), says("ready"))
    await supervisor.kill("part")
    assert said == ["part killed by SIGKILL; its last lines:\nready"]
    assert supervisor.status() == [PartStatus("part", "ended", None, 0.0, "killed by SIGKILL", "ready")]
    assert supervisor.ended.is_set()


async def test_an_exit_is_as_unasked_as_a_kill(supervisor: Supervisor, said: list[str]) -> None:
    await supervisor.start(shell("echo ready; sleep 0.2; exit 7"), says("ready"))
    await asyncio.wait_for(supervisor.ended.wait(), 20)
    assert said == ["part exited with status 7; its last lines:\nready"]


async def test_a_part_that_is_stopped_is_no_failure(supervisor: Supervisor, said: list[str], layout: Layout) -> None:
    await supervisor.start(shell(SLEEPER), says("ready"))
    await supervisor.stop("part")
    assert said == []
    assert supervisor.status() == [PartStatus("part", "stopped")]
    assert list(layout.pids.iterdir()) == []


async def test_what_ends_while_starting_fails_the_start_at_once(supervisor: Supervisor, said: list[str]) -> None:
    with pytest.raises(PartError, match="part exited with status 2 while starting; its last lines:\nno such flag"):
        await supervisor.start(shell("echo no such flag; exit 2"), says("ready"))
    assert said == []


async def test_what_never_becomes_ready_is_stopped(supervisor: Supervisor, layout: Layout) -> None:
    with pytest.raises(PartError, match="part was not ready within 0 s"):
        await supervisor.start(shell(SLEEPER, ready_within=0), says("never said"))
    assert supervisor.status() == [PartStatus("part", "stopped")]
    assert list(layout.pids.iterdir()) == []


async def test_a_program_that_is_not_there_says_so(supervisor: Supervisor) -> None:
    with pytest.raises(FileNotFoundError, match="/no/such/program"):
        await supervisor.start(Command(part="part", arguments=["/no/such/program"], stage=0), at_once)
    assert supervisor.status() == [PartStatus("part", "stopped")]


async def test_a_part_that_ignores_the_request_is_killed_with_its_children(
    supervisor: Supervisor, layout: Layout
) -> None:
    await supervisor.start(shell(STUBBORN, grace=0.3), says("ready"))
    group = pid_of(layout)
    await supervisor.stop("part")
    assert in_group(group) == []


async def test_clients_end_before_their_servers(supervisor: Supervisor, tmp_path: Path) -> None:
    order = tmp_path / "order"
    for stage, part in enumerate(["server", "client"]):
        farewell = f"trap 'echo {part} >> {order}; exit 0' TERM; echo ready; while true; do sleep 0.05; done"
        await supervisor.start(shell(farewell, part=part, stage=stage), says("ready"))
    await supervisor.stop_all()
    assert order.read_text() == "client\nserver\n"


async def test_a_restart_runs_the_same_command_anew(supervisor: Supervisor, layout: Layout) -> None:
    await supervisor.start(shell(SLEEPER), says("ready"))
    first = pid_of(layout)
    await supervisor.restart("part")
    assert pid_of(layout) != first
    assert [part.state for part in supervisor.status()] == ["running"]


async def test_a_part_runs_once(supervisor: Supervisor) -> None:
    await supervisor.start(shell(SLEEPER), says("ready"))
    with pytest.raises(ClusterError, match="part runs already"):
        await supervisor.start(shell(SLEEPER), says("ready"))


async def test_an_unknown_part_is_answered_with_the_known_ones(supervisor: Supervisor) -> None:
    await supervisor.start(shell(SLEEPER, part="etcd"), says("ready"))
    with pytest.raises(UnknownPartError, match="no part is named kubelet; there are etcd"):
        await supervisor.stop("kubelet")


async def test_parts_die_with_a_killed_supervisor(layout: Layout) -> None:
    script = (
        "import asyncio, sys; from pathlib import Path; from devcluster.paths import Layout;"
        "from devcluster.probe import says; from devcluster.process import Command; "
        "from devcluster.supervisor import Supervisor\n"
        "async def main():\n"
        "    supervisor = Supervisor(Layout.of('shells', state=Path(sys.argv[1])), print)\n"
        f"    command = Command(part='part', arguments=['sh', '-c', {SLEEPER!r}], stage=0)\n"
        "    await supervisor.start(command, says('ready'))\n"
        "    print('started', flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, str(layout.root.parent), stdout=asyncio.subprocess.PIPE, env=with_path()
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"started\n"
    part = Identity.read(layout.pids / "part")
    assert part is not None
    assert part.alive
    process.kill()
    await process.communicate()
    await until(lambda: is_dead(part))


async def test_leftovers_are_ended_but_never_a_stranger_with_the_same_number(
    supervisor: Supervisor, layout: Layout
) -> None:
    await supervisor.start(shell(SLEEPER, part="left"), says("ready"))
    await supervisor.start(shell(SLEEPER, part="stranger"), says("ready"))
    Identity(pid_of(layout, "stranger"), "another-boot/1").write(layout.pids / "stranger")
    assert end_leftovers(layout.pids) == ["left"]
    await asyncio.wait_for(supervisor.ended.wait(), 20)
    states = {part.part: (part.state, part.ending) for part in supervisor.status()}
    assert states == {"left": ("ended", "killed by SIGKILL"), "stranger": ("running", "")}


async def test_a_signal_other_than_kill_can_be_sent(supervisor: Supervisor, said: list[str]) -> None:
    await supervisor.start(shell(SLEEPER), says("ready"))
    await supervisor.kill("part", signal.SIGTERM)
    assert said == ["part killed by SIGTERM; its last lines:\nready"]


def with_path() -> dict[str, str]:
    return {"PYTHONPATH": ":".join(sys.path)}


async def is_dead(identity: Identity) -> bool:
    return not identity.alive
