"""Everything of a cluster that is not this project's: control plane, NFD, Kueue, in the order in which they can start.

The controller manager comes after all CRDs: its garbage collector learns of later ones half a minute late, and until
then collects nothing that they own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from devcluster.build import Binaries
from devcluster.control_plane import ControlPlane
from devcluster.install import Installer, Json, read_manifests
from devcluster.kubelet.settings import Timing
from devcluster.kubelets import Kubelets
from devcluster.kueue import NAMESPACE as KUEUE_NAMESPACE
from devcluster.kueue import Kueue
from devcluster.nfd import NAMESPACE as NFD_NAMESPACE
from devcluster.nfd import NodeFeatureDiscovery
from devcluster.node import SimulatedNode
from devcluster.paths import MANIFESTS, Layout
from devcluster.ports import Ports
from devcluster.programs import NAMESPACE
from devcluster.steps import Steps
from devcluster.supervisor import Supervisor

NAMESPACES = (NAMESPACE, NFD_NAMESPACE, KUEUE_NAMESPACE)


def rules() -> list[Json]:
    """Who of ours may do what, and what nobody may do."""
    return [*read_manifests(MANIFESTS / "rbac"), *read_manifests(MANIFESTS / "policies")]


class Platform:
    def __init__(
        self,
        layout: Layout,
        binaries: Binaries,
        ports: Ports,
        supervisor: Supervisor,
        *,
        kueue_configuration: Path,
        kubelet_timing: Timing,
    ) -> None:
        self.control_plane = ControlPlane(layout, binaries, ports)
        self._discovery = NodeFeatureDiscovery(layout, binaries, self.control_plane)
        self._kueue = Kueue(layout, binaries, ports, self.control_plane, kueue_configuration)
        self._kubelets = Kubelets(layout, ports, self.control_plane, kubelet_timing)
        self._supervisor = supervisor

    async def start_api_server(self) -> None:
        await self._supervisor.start(*self.control_plane.etcd())
        await self._supervisor.start(*self.control_plane.api_server())

    async def install(self, installer: Installer) -> None:
        """All kinds, ours and those that we use, our roles and policies. Nothing runs that would act on them."""
        await installer.namespaces(*NAMESPACES)
        async with Steps() as steps:
            for crds in (read_manifests(MANIFESTS / "crds"), self._discovery.crds(), self._kueue.crds()):
                steps.add(installer.install_crds, crds)
            steps.add(installer.install, rules())

    async def start(self, installer: Installer, nodes: Sequence[SimulatedNode]) -> None:
        """All of it. Without a node NFD is left out, since its master needs one to live on."""
        await installer.namespaces(*NAMESPACES)
        async with Steps() as steps:
            ours = steps.add(installer.install_crds, read_manifests(MANIFESTS / "crds"))
            features = steps.add(installer.install_crds, self._discovery.crds())
            queues = steps.add(installer.install_crds, self._kueue.crds())
            steps.add(installer.install, rules())
            steps.add(self._supervisor.start, *self.control_plane.scheduler())
            steps.add(self._start_kueue, installer, after=[queues])
            controllers = steps.add(
                self._supervisor.start, *self.control_plane.controller_manager(), after=[ours, features, queues]
            )
            joined = [steps.add(node.join) for node in nodes]
            runtime = steps.add(self._supervisor.start, *self._kubelets.runtime())
            for node in nodes:
                steps.add(self.start_kubelet, node, after=[runtime, *joined])
                steps.add(node.publish, after=[features, *joined])
                steps.add(node.until_schedulable, after=[controllers, *joined])
            if nodes:
                launch = self._discovery.launch(nodes[0].name)
                steps.add(self._supervisor.start, *launch, after=[features, *joined])

    async def start_kubelet(self, node: SimulatedNode) -> None:
        """The Node must be there."""
        await self._supervisor.start(*self._kubelets.kubelet(node.name, node.file))

    async def end_containers(self, node: str) -> None:
        """Of a machine that is gone."""
        await self._kubelets.end_containers(node)

    async def _start_kueue(self, installer: Installer) -> None:
        await installer.install([self._kueue.secret()])
        await self._supervisor.start(*self._kueue.launch())
        await installer.install(self._kueue.webhooks())
