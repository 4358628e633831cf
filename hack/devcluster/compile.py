"""Compiles one program and tells how long it has been at it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from devcluster.errors import BuildError
from devcluster.go import Go, environment


@dataclass(frozen=True, slots=True)
class Compilation:
    """`module` is the folder with the go.mod that says which versions the package is built with."""

    program: str
    package: str
    ldflags: str
    module: Path
    target: Path


@dataclass(slots=True)
class Progress:
    """Tells a person what is being built: a line that is rewritten on a terminal, one line a minute elsewhere."""

    stream: TextIO = field(default_factory=lambda: sys.stderr)
    clock: Callable[[], float] = time.monotonic
    started: float = field(init=False)
    _told: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self.started = self.clock()

    def say(self, text: str) -> None:
        print(text, file=self.stream, flush=True)

    def part(self, position: int, total: int, program: str) -> Callable[[bool], None]:
        """What to call about once a second while the part is built, and with True when it is done."""
        self._told = float("-inf")

        def tell(done: bool) -> None:
            elapsed = self.clock() - self.started
            text = f"part {position} of {total}: {program}, {elapsed // 60:.0f} min {elapsed % 60:02.0f} s elapsed"
            if self.stream.isatty():
                print(f"\r\x1b[K{text}", end="\n" if done else "", file=self.stream, flush=True)
            elif done or elapsed - self._told >= 60:
                self._told = elapsed
                self.say(f"{text}{', built' if done else ''}")

        return tell


def compile_program(go: Go, compilation: Compilation, tell: Callable[[bool], None]) -> None:
    """Puts the binary in place, whole or not at all."""
    target = compilation.target
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f"{target.name}.unfinished")
    command = [str(go.executable), "build", "-trimpath", "-ldflags", compilation.ldflags, "-o", str(unfinished)]
    log = target.with_name(f"{target.name}.log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, compilation.package],
            cwd=compilation.module,
            env=environment(),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        returncode = _watched(process, tell)
    if returncode != 0:
        raise BuildError(f"{compilation.program} could not be built, see {log}:\n{_tail(log)}")
    unfinished.rename(target)
    tell(True)


def _watched(process: subprocess.Popen[bytes], tell: Callable[[bool], None]) -> int:
    """The exit status. Whatever ends the wait early (Ctrl-C, say) ends the compilers too."""
    try:
        while True:
            tell(False)
            with suppress(subprocess.TimeoutExpired):
                return process.wait(timeout=1)
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise


def _tail(log: Path, lines: int = 20) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
