"""The runtime as a kubelet in another process sees it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from devcluster.containers.interface import Snapshot, Specification, StartError
from devcluster.control import call_socket
from devcluster.errors import ClusterError


class RuntimeClient:
    """Each call has a connection of its own. An OSError says that the runtime is away."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def start(self, specification: Specification) -> None:
        try:
            await call_socket(self._socket, "start", specification=msgspec.to_builtins(specification))
        except ClusterError as error:
            raise StartError(str(error)) from error

    async def stop(self, container: str, grace: float) -> None:
        await call_socket(self._socket, "stop", container=container, grace=grace)

    async def remove(self, containers: Sequence[str]) -> None:
        await call_socket(self._socket, "remove", containers=list(containers))

    async def snapshot(self, node: str, after: int = -1) -> Snapshot:
        return msgspec.convert(await call_socket(self._socket, "snapshot", node=node, after=after), Snapshot)
