"""A whole development cluster as one `async with`.

Guarantees   When the block is entered, everything that was asked for is ready. Whatever goes wrong on the way, and
             however the block is left, no process stays behind. Two clusters of different names do not disturb each
             other; a second one of the same name is refused.
Assumptions  The event loop runs as long as the cluster: it renews tokens and notices what ends.
Recovery     A part that ends is named and listed (`status`), never restarted by itself; `restart` does it.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Final, TextIO

from devcluster import state
from devcluster.background import Background
from devcluster.build import Binaries
from devcluster.control_plane import ADMINISTRATORS
from devcluster.errors import ClusterError, UnknownPartError
from devcluster.install import Installer
from devcluster.kubelet.settings import Timing
from devcluster.kubelets import kubelet_part
from devcluster.node import SimulatedNode
from devcluster.paths import KUEUE_CONFIGURATION, Layout
from devcluster.platform import Platform
from devcluster.ports import Ports, reserve
from devcluster.programs import OPERATOR_PART, Programs, agent_part
from devcluster.steps import Steps
from devcluster.supervisor import PartStatus, Supervisor
from devcluster.tokens import Token
from gpustack_op.agent import inventory
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.errors import NotFound

QUICK: Final = Timing(status_period=1.0)
"""A real kubelet reports its resources every ten seconds, which is long to wait for a person and for a test."""


class Scope(Enum):
    """How much of it runs. Each includes the one before."""

    CONTROL_PLANE = "control-plane"
    """etcd and the API server with our CRDs and roles: enough for one reconciler or a webhook."""

    PLATFORM = "platform"
    """Also the controller manager, the scheduler, NFD, Kueue and the nodes: all that our programs find elsewhere."""

    ALL = "all"
    """Also the operator, and an agent on each node."""


class Cluster:
    """`machines` are inventory files; `say` is told what a person should know."""

    def __init__(
        self,
        layout: Layout,
        binaries: Binaries,
        *,
        machines: Iterable[Path] = (),
        scope: Scope = Scope.PLATFORM,
        kueue_configuration: Path = KUEUE_CONFIGURATION,
        kubelet_timing: Timing = QUICK,
        say: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True),
    ) -> None:
        self.layout = layout
        self.scope = scope
        self._binaries = binaries
        self._machines = list(machines)
        self._kueue_configuration = kueue_configuration
        self._kubelet_timing = kubelet_timing
        self._say = say
        self.supervisor = Supervisor(layout, say)
        self._background = Background(say)
        self._nodes: dict[str, SimulatedNode] = {}
        self._clients: list[Client] = []
        self._lock: TextIO | None = None
        self._ports: Ports | None = None

    async def __aenter__(self) -> Cluster:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        self._lock = state.take(self.layout)
        try:
            self._ports = reserve()
            await self._bring_up(self._ports)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Ends everything and removes the cluster's files, logs excepted. Can be called at any time."""
        await self._background.cancel_all()
        for client in self._clients:
            await client.close()
        await self.supervisor.stop_all()
        if self._ports is not None:
            self._ports.close()
        if self._lock is not None:
            state.clear(self.layout)
            self._lock.close()
            self._lock = None

    def status(self) -> list[PartStatus]:
        return [*self.supervisor.status(), *self._background.status()]

    async def restart(self, part: str) -> None:
        """Stops a part if it runs and starts it again as it was."""
        await self.supervisor.restart(part)

    async def stop_part(self, part: str) -> None:
        await self.supervisor.stop(part)

    async def kill(self, part: str, number: int = signal.SIGKILL) -> None:
        """As if the part had died by itself."""
        await self.supervisor.kill(part, number)

    async def start_operator(self, arguments: Sequence[str] = ()) -> None:
        """`arguments` come after those it is always given, and win."""
        await self._keep_token(OPERATOR_PART, self._programs.operator_token())
        await self.supervisor.start(*self._programs.operator(arguments))

    async def start_agent(self, node: str, arguments: Sequence[str] = ()) -> None:
        """The node must have joined: its agent's token is bound to it."""
        machine = self._node(node)
        await self._keep_token(agent_part(node), self._programs.agent_token(node, machine.uid))
        await self.supervisor.start(*self._programs.agent(node, machine.file, arguments))

    async def add_machine(self, file: Path) -> str:
        """Lets one more machine join; gives its node's name."""
        node = self._make_node(file)
        await node.join()
        await node.publish()
        await self._platform.start_kubelet(node)
        await node.until_schedulable()
        return node.name

    async def remove_machine(self, node: str) -> None:
        """The machine is gone for good: what runs on it and its Node too."""
        machine = self._node(node)
        for part in (agent_part(node), kubelet_part(node)):
            with suppress(UnknownPartError):
                await self.supervisor.stop(part)
        await self._platform.end_containers(node)
        with suppress(NotFound):
            await machine.leave()
        del self._nodes[node]

    async def _bring_up(self, ports: Ports) -> None:
        self.layout.kubectl.symlink_to(self._binaries["kubectl"])
        self.layout.kubelets.mkdir()
        self.layout.short.symlink_to(self.layout.kubelets)
        self._platform = Platform(
            self.layout,
            self._binaries,
            ports,
            self.supervisor,
            kueue_configuration=self._kueue_configuration,
            kubelet_timing=self._kubelet_timing,
        )
        self._programs = Programs(self.layout, ports, self._platform.control_plane)
        await self._platform.start_api_server()
        self._administrator = self._client("admin")
        installer = Installer(self._administrator)
        if self.scope is Scope.CONTROL_PLANE:
            await self._platform.install(installer)
            return
        nodes = [self._make_node(file) for file in self._machines]
        await self._platform.start(installer, nodes)
        if self.scope is Scope.ALL:
            async with Steps() as steps:
                steps.add(self.start_operator)
                for node in nodes:
                    steps.add(self.start_agent, node.name)

    async def _keep_token(self, part: str, token: Token) -> None:
        delay = await token.fetch(self._administrator)
        await self._background.cancel(f"token-{part}")
        self._background.start(f"token-{part}", token.keep(self._administrator, self._say, delay))

    def _make_node(self, file: Path) -> SimulatedNode:
        machine = inventory.load(file)
        if machine.node in self._nodes:
            raise ClusterError(f"{file}: node {machine.node} is in the cluster already")
        client = self._client(f"system:node:{machine.node}")
        node = self._nodes[machine.node] = SimulatedNode(file, machine, client, self._say)
        return node

    def _node(self, name: str) -> SimulatedNode:
        if name not in self._nodes:
            raise UnknownPartError(f"no machine is named {name}; there are {', '.join(self._nodes) or 'none'}")
        return self._nodes[name]

    def _client(self, user: str) -> Client:
        client = Client(self._platform.control_plane.client(user, ADMINISTRATORS), user_agent="devcluster")
        self._clients.append(client)
        return client
