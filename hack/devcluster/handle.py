"""A cluster that runs in another process, as the demo and the tests see it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from devcluster import daemon
from devcluster.cluster import Scope
from devcluster.control import call
from devcluster.control_plane import administrator
from devcluster.kubectl import Kubectl
from devcluster.kubelet.folders import Folders
from devcluster.kubelets import kubelet_part
from devcluster.paths import Layout
from devcluster.supervisor import PartStatus
from gpustack_op.runtime.config import ClientConfig


class RunningCluster:
    """Any event loop may use it; every call has a connection of its own."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.kubectl = Kubectl(layout)

    @property
    def administrator(self) -> ClientConfig:
        """How to reach the API server as one who may do everything."""
        return administrator(self.layout)

    async def status(self) -> list[PartStatus]:
        return msgspec.convert(await call(self.layout, "status"), list[PartStatus])

    async def restart(self, part: str) -> None:
        await call(self.layout, "restart", part=part)

    async def stop_part(self, part: str) -> None:
        await call(self.layout, "stop_part", part=part)

    async def kill(self, part: str, number: int = signal.SIGKILL) -> None:
        await call(self.layout, "kill", part=part, number=int(number))

    async def start_operator(self, arguments: Sequence[str] = ()) -> None:
        await call(self.layout, "start_operator", arguments=list(arguments))

    async def start_agent(self, node: str, arguments: Sequence[str] = ()) -> None:
        await call(self.layout, "start_agent", node=node, arguments=list(arguments))

    async def add_machine(self, file: Path) -> str:
        """`file` is an absolute path, since the cluster's working directory is another; gives the node's name."""
        return str(await call(self.layout, "add_machine", file=str(file)))

    def kubelet(self, node: str) -> Folders:
        """Its folders: what its containers were given, and what is to be done to its checkpoint."""
        return self.layout.kubelet(node)

    async def restart_kubelet(self, node: str, *, meanwhile: Callable[[Folders], None] = lambda folders: None) -> None:
        """Containers go on. `meanwhile` may lose the checkpoint, say."""
        await self.stop_part(kubelet_part(node))
        meanwhile(self.kubelet(node))
        await self.restart(kubelet_part(node))

    async def remove_machine(self, node: str) -> None:
        await call(self.layout, "remove_machine", node=node)


@contextmanager
def running(
    name: str, *, scope: Scope = Scope.PLATFORM, machines: Sequence[Path] = (), say: Callable[[str], None]
) -> Iterator[RunningCluster]:
    """A cluster for the length of the block. It ends with this process, should that be killed."""
    layout = Layout.of(name)
    process = daemon.up(layout, scope=scope, machines=machines, say=say, attached=True)
    try:
        yield RunningCluster(layout)
    finally:
        daemon.down(layout, say)
        process.wait()
