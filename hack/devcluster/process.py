"""One process of a cluster: started, watched, ended, and never left behind.

Guarantees   The process leads a group of its own and gets SIGKILL from the kernel when the supervisor dies, however
             that happens. `stop` ends the whole group. A file under `pids/` names it together with its birth, so that a
             later `down` can end what is left and can never hit a stranger that was given the same number.
Assumptions  Linux; the thread that starts a process lives as long as the supervisor.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

if sys.platform != "linux":
    raise ImportError("the development cluster needs Linux: its kernel ends the processes of a supervisor that died")

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)

INHERITED = ("PATH", "HOME", "TMPDIR", "LANG", "TZ")
"""What a process gets from our own environment; all else is said by its command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """How to run a part. Parts of a higher stage depend on those below, so they start later and are stopped earlier."""

    part: str
    arguments: Sequence[str]
    stage: int
    environment: Mapping[str, str] = field(default_factory=dict)
    grace: float = 3.0
    """Seconds between SIGTERM and SIGKILL."""

    ready_within: float = 60.0
    """Seconds; the slowest part takes about 4 on two idle cores."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A process for good: its number, and when it was born."""

    pid: int
    birth: str

    @classmethod
    def of(cls, pid: int) -> Identity | None:
        """None when there is no such process. Reads what stands behind the name, which may hold spaces and brackets."""
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        except (OSError, ValueError):
            return None
        return None if fields[0] in "ZX" else cls(pid, f"{boot}/{fields[19]}")

    @classmethod
    def read(cls, file: Path) -> Identity | None:
        with suppress(OSError, ValueError):
            pid, birth = file.read_text().split()
            return cls(int(pid), birth)
        return None

    def write(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{self.pid} {self.birth}\n")

    @property
    def alive(self) -> bool:
        return Identity.of(self.pid) == self


class Process:
    """A started command."""

    def __init__(self, command: Command, process: asyncio.subprocess.Process, log: Path, log_start: int) -> None:
        self.command = command
        self.log = log
        self.started_at = time.time()
        self._process = process
        self._log_start = log_start

    @classmethod
    async def start(cls, command: Command, *, log: Path, pid_file: Path) -> Process:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            log_start = output.tell()
            process = await asyncio.create_subprocess_exec(
                *command.arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**{key: os.environ[key] for key in INHERITED if key in os.environ}, **command.environment},
                start_new_session=True,
                preexec_fn=die_with(os.getpid()),
            )
        identity = Identity.of(process.pid)
        if identity is not None:
            identity.write(pid_file)
        return cls(command, process, log, log_start)

    @property
    def part(self) -> str:
        return self.command.part

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    @property
    def ending(self) -> str:
        """How it ended, for a person; empty while it runs."""
        code = self._process.returncode
        if code is None:
            return ""
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exited with status {code}"

    async def wait(self) -> None:
        await self._process.wait()

    def output(self) -> str:
        """What it has logged since it started."""
        with self.log.open("rb") as file:
            file.seek(self._log_start)
            return file.read().decode(errors="replace")

    def tail(self, lines: int = 15) -> str:
        return "\n".join(self.output().splitlines()[-lines:])

    def signal(self, number: int) -> None:
        """To the whole group, as long as anything of it lives."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    async def stop(self) -> None:
        self.signal(signal.SIGTERM)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), self.command.grace)
        self.signal(signal.SIGKILL)
        await self._process.wait()


def die_with(parent: int) -> Callable[[], None]:
    """For `preexec_fn`: the child is killed when its parent dies, even if that is before the child has asked for it."""

    def arrange() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return arrange


def end_with_parent(wanted: bool) -> None:
    """Whether the kernel sends this process a SIGTERM when the one that started it dies."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM if wanted else 0)


def end_leftovers(pids: Path) -> list[str]:
    """Kills what the files name and what is still the same process; gives the names of the parts."""
    ended = []
    for file in sorted(pids.glob("*")):
        identity = Identity.read(file)
        if identity is not None and identity.alive:
            with suppress(ProcessLookupError):
                os.killpg(identity.pid, signal.SIGKILL)
            ended.append(file.name)
        file.unlink(missing_ok=True)
    return ended
