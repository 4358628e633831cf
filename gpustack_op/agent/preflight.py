"""Looks whether a node has what the agent needs, before it needs it.

Guarantees   One line for each thing, which says what to do where it is amiss. Nothing is changed on the node, and
             nothing found amiss keeps the agent from starting: what is missing may come later.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from gpustack_op.agent.daemon_thread import PATIENCE, DaemonThread
from gpustack_op.runtime.logging import logger
from gpustack_op.scheduling.manufacturers import MANUFACTURERS, Family

KUBELET: Final = Path("/var/lib/kubelet")
STATE: Final = Path("/var/lib/gpustack/operator")
LOCKS: Final = Path("/run/gpustack")

LONGEST_SOCKET_PATH: Final = 107
"""Bytes that the kernel takes as the path of a socket."""

log = logger("preflight")


@dataclass(frozen=True, slots=True)
class Finding:
    """`fact` is what was seen; an empty `remedy` says that it is well."""

    subject: str
    fact: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{'amiss' if self.remedy else 'ok':5} {self.subject}: {self.fact}" + (
            f"; {self.remedy}" if self.remedy else ""
        )


@dataclass(frozen=True, slots=True)
class Folders:
    kubelet: Path = KUBELET
    state: Path = STATE
    locks: Path = LOCKS

    @property
    def plugins(self) -> Path:
        """Where the kubelet looks for device plugins, and they for it."""
        return self.kubelet / "device-plugins"

    @property
    def pod_resources(self) -> Path:
        return self.kubelet / "pod-resources"


@runtime_checkable
class Inspectable(Protocol):
    """A detector that can say what its driver lacks."""

    def inspect(self) -> list[Finding]: ...


class Preflight:
    """`folders` is None for an agent that gives out no cards: it needs nothing of the kubelet."""

    def __init__(self, detector: object, folders: Folders | None, *, patience: float = 2 * PATIENCE) -> None:
        self._detector = detector
        self._folders = folders
        self._patience = patience

    def findings(self) -> list[Finding]:
        driver = _within(self._detector, self._patience) if isinstance(self._detector, Inspectable) else []
        return [*driver, *(_of_folders(self._folders) if self._folders else ())]

    def log(self) -> None:
        for finding in self.findings():
            if finding.remedy:
                log.warning("preflight.amiss", subject=finding.subject, fact=finding.fact, remedy=finding.remedy)
            else:
                log.info("preflight.ok", subject=finding.subject, fact=finding.fact)


def _within(detector: Inspectable, patience: float) -> list[Finding]:
    """A driver that hangs holds up nothing."""
    asked: Future[list[Finding]] = DaemonThread("preflight").run(detector.inspect)
    try:
        return asked.result(patience)
    except TimeoutError:
        fact = f"has not answered within {patience:g} s"
        return [Finding("driver", fact, "look into the kernel's log; a node whose driver hangs needs a reboot")]


def _of_folders(folders: Folders) -> Iterator[Finding]:
    yield _socket(folders.plugins / "kubelet.sock", "device plugins")
    yield _socket(folders.pod_resources / "kubelet.sock", "pod resources")
    yield _writable(folders.plugins, "--kubelet-root")
    yield _writable(folders.state, "--state-dir")
    yield _writable(folders.locks, "--lock-dir")
    yield _short_enough(folders)


def _socket(path: Path, what: str) -> Finding:
    subject = f"kubelet's {what}"
    try:
        found = stat.S_ISSOCK(path.stat().st_mode)
    except OSError as error:
        return Finding(
            subject, f"{path}: {error.strerror}", "start the kubelet, or mount its folder into the agent's Pod"
        )
    if not found:
        return Finding(subject, f"{path} is no socket", "name the kubelet's own folder with --kubelet-root")
    return Finding(subject, str(path))


def _writable(folder: Path, flag: str) -> Finding:
    """Tried where it is, or where it would be made."""
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(b"-")
    except OSError as error:
        remedy = f"make it writable and leave room on its disk, or name another folder with {flag}"
        return Finding("write access", f"{folder}: {error.strerror}", remedy)
    return Finding("write access", str(folder))


def _short_enough(folders: Folders) -> Finding:
    """The longest name that one of our sockets may have."""
    names = (f"{row.id}.{family.name.lower()}.00000000.sock" for row in MANUFACTURERS for family in Family)
    longest = folders.plugins / max(names, key=len)
    length = len(os.fsencode(longest))
    if length > LONGEST_SOCKET_PATH:
        remedy = f"shorten --kubelet-root by {length - LONGEST_SOCKET_PATH} bytes, with a link if need be"
        return Finding("socket paths", f"{longest} has {length} bytes, the kernel takes {LONGEST_SOCKET_PATH}", remedy)
    return Finding("socket paths", f"{length} of {LONGEST_SOCKET_PATH} bytes")
