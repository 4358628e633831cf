"""Free ports on loopback, chosen before anything listens, so that every command line is known up front.

Guarantees   Two clusters never share a port, also when they start at the same moment: each holds a lock on its block
             for as long as it lives. A part that is started again finds its old port free.
Assumptions  Blocks lie below the range from which Linux takes ports for outgoing connections (32768 and up), or a
             client could be given a port that a server is about to listen on.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from devcluster.errors import PortsError

FIRST, LAST = 20_000, 32_000
BLOCK = 100
"""Ports a cluster: some ten for the platform, three for each node."""


class Ports:
    """A block of ports of one cluster. `ports["kueue-webhook"]` is the same number each time it is asked for."""

    def __init__(self, first: int, lock: TextIO) -> None:
        self._candidates = iter(range(first, first + BLOCK))
        self._lock = lock
        self._taken: dict[str, int] = {}

    def __getitem__(self, purpose: str) -> int:
        if purpose not in self._taken:
            self._taken[purpose] = next(filter(is_free, self._candidates), 0)
        if not self._taken[purpose]:
            raise PortsError(f"no free port for {purpose}: a cluster has {BLOCK}")
        return self._taken[purpose]

    def close(self) -> None:
        """Gives the block back."""
        self._lock.close()


@contextmanager
def reserved() -> Iterator[Ports]:
    """The ports of one cluster, until the end of the block."""
    ports = reserve()
    try:
        yield ports
    finally:
        ports.close()


def reserve() -> Ports:
    folder = Path(tempfile.gettempdir()) / f"gpustack-op-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    starts = list(range(FIRST, LAST, BLOCK))
    random.shuffle(starts)
    for first in starts:
        lock = (folder / str(first)).open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
        else:
            return Ports(first, lock)
    raise PortsError(f"all {len(starts)} blocks of ports are taken, see {folder}")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
