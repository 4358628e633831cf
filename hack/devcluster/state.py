"""The folder of one cluster: who holds it, and what is left in it.

Guarantees   One process at a time holds a name. The lock is the kernel's: it is free as soon as its holder is dead,
             whatever killed it, so it also tells whether a cluster runs. The lock file names its holder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from typing import Final, TextIO

from devcluster.errors import AlreadyUpError
from devcluster.paths import Layout
from devcluster.process import Identity, end_leftovers

SUPERVISOR: Final = "supervisor"
"""The log of the process that holds the cluster, if it has one."""

KEPT: Final = frozenset({"lock", "logs", "audit.log"})
"""What a cluster leaves for reading after its end."""


def take(layout: Layout) -> TextIO:
    """Takes the name and removes all that an earlier cluster of that name left. Closing the file gives it back."""
    lock = _locked(layout)
    if lock is None:
        raise AlreadyUpError(f'cluster "{layout.name}" is up; end it with: hack/dev --name {layout.name} down')
    identity = Identity.of(os.getpid())
    if identity is not None:
        identity.write(layout.lock)
    end_leftovers(layout.pids)
    clear(layout, keep=frozenset({"lock", "logs"}))
    for log in layout.logs.glob("*.log"):
        if log != layout.log(SUPERVISOR):
            log.unlink()
    return lock


def is_up(layout: Layout) -> bool:
    """Whether somebody holds the name."""
    lock = _locked(layout)
    if lock is not None:
        lock.close()
    return lock is None


def holder(layout: Layout) -> Identity | None:
    """The process that holds the name, or held it last."""
    return Identity.read(layout.lock)


def sweep(layout: Layout) -> list[str]:
    """Ends what a dead holder left, keeps its logs, and names the parts that were still there."""
    lock = _locked(layout)
    if lock is None:
        return []
    with lock:
        ended = end_leftovers(layout.pids)
        clear(layout)
    return ended


def forget(layout: Layout) -> None:
    """Removes the folder of a cluster that is down, logs and all."""
    shutil.rmtree(layout.root, ignore_errors=True)


def clear(layout: Layout, *, keep: frozenset[str] = KEPT) -> None:
    layout.short.unlink(missing_ok=True)
    for path in layout.root.iterdir():
        if path.name in keep:
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _locked(layout: Layout) -> TextIO | None:
    layout.root.mkdir(parents=True, exist_ok=True)
    lock = layout.lock.open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock
