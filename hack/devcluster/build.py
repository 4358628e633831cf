"""Builds the foreign programs once and keeps them under the user's cache folder.

Guarantees   A second call is instant. A folder's name is the hash of all that goes into its binaries, so what is there
             is what was asked for, and two checkouts with different versions do not disturb each other. Programs are
             built one after the other (a link takes about 2 GiB), also when two builds are started. An interrupted
             build leaves no half-written binary behind.
Assumptions  `go` fetches modules from wherever the machine's Go is set up to.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from devcluster.compile import Compilation, Progress, compile_program
from devcluster.errors import BuildError
from devcluster.go import Go, provide
from devcluster.paths import TOOLS, cache_root
from devcluster.versions import MODULES, Module

NEEDED_BYTES = 10 * 10**9
"""A cold build fills about 5.7 GB of Go's build cache, 2.1 GB of its module cache and 0.5 GB with binaries."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """Everything that was built. Each module has a folder of its own."""

    folders: dict[str, Path]

    def __getitem__(self, program: str) -> Path:
        return next(self.folders[module.name] / program for module in MODULES if program in module.binaries)

    def manifests(self, module: Module, name: str) -> list[dict[str, Any]]:
        """The objects of one of the module's manifests, as their authors wrote them."""
        decoded: list[dict[str, Any]] = msgspec.json.decode(_manifest(self.folders[module.name], name).read_bytes())
        return decoded


def build(progress: Progress) -> Binaries:
    """Builds what is missing. Waits while another build runs."""
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder / "build.lock", progress):
        go = provide()
        binaries = _binaries(go)
        missing = [compilation for module in MODULES for compilation in _missing(module, binaries)]
        if missing:
            check_space(_disks(go, folder))
        for position, compilation in enumerate(missing, start=1):
            compile_program(go, compilation, progress.part(position, len(missing), compilation.program))
        for module in MODULES:
            _keep_manifests(go, module, binaries.folders[module.name])
    return binaries


def built() -> Binaries:
    """What `build` would give, when it would have nothing to do."""
    binaries = _binaries(provide())
    if any(True for module in MODULES for _ in _missing(module, binaries)):
        raise BuildError("not everything is built yet; run: hack/dev build")
    return binaries


def key(module: Module, go_version: str) -> str:
    """Names everything that a module's binaries depend on, in 16 hexadecimal digits."""
    folder = TOOLS / module.name
    parts = [go_version, module.ldflags, *(f"{name}={package}" for name, package in module.binaries.items())]
    digest = hashlib.sha256("\n".join(parts).encode())
    for name in ("go.mod", "go.sum"):
        digest.update((folder / name).read_bytes())
    return digest.hexdigest()[:16]


def _folder() -> Path:
    return cache_root() / "devcluster"


def _binaries(go: Go) -> Binaries:
    return Binaries({module.name: _folder() / f"{module.name}-{key(module, go.version)}" for module in MODULES})


def check_space(disks: Sequence[Path], needed: int = NEEDED_BYTES) -> None:
    for disk in disks:
        free = shutil.disk_usage(disk).free
        if free < needed:
            raise BuildError(
                f"{disk}: {free / 10**9:.1f} GB are free, a first build needs {needed / 10**9:.0f} GB; "
                "free some space, or move the caches with XDG_CACHE_HOME, GOCACHE and GOMODCACHE"
            )


def _disks(go: Go, folder: Path) -> list[Path]:
    """The folders that a build fills, those that exist already."""
    caches = [Path(line) for line in go.output("env", "GOCACHE", "GOMODCACHE").splitlines() if line]
    return [folder, *(_existing(cache) for cache in caches)]


def _existing(path: Path) -> Path:
    return path if path.exists() else _existing(path.parent)


def _missing(module: Module, binaries: Binaries) -> Iterator[Compilation]:
    for program, package in module.binaries.items():
        if not binaries[program].exists():
            yield Compilation(program, package, module.ldflags, TOOLS / module.name, binaries[program])


def _keep_manifests(go: Go, module: Module, folder: Path) -> None:
    """Stores the module's YAML as JSON: read at every start, JSON takes a hundredth of the time."""
    wanted = [name for name in module.manifests if not _manifest(folder, name).exists()]
    if not wanted:
        return
    source = Path(go.output("list", "-m", "-f", "{{.Dir}}", module.source, directory=TOOLS / module.name).strip())
    for name in wanted:
        files = sorted(source.glob(module.manifests[name]))
        objects = [each for file in files for each in _documents(file)]
        unfinished = _manifest(folder, name).with_suffix(".unfinished")
        unfinished.write_bytes(msgspec.json.encode(objects))
        unfinished.rename(_manifest(folder, name))


def _manifest(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def _documents(file: Path) -> list[Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [document for document in yaml.load_all(file.read_text(encoding="utf-8"), Loader=loader) if document]


@contextmanager
def _alone(lock: Path, progress: Progress) -> Iterator[None]:
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say("another build is running; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
