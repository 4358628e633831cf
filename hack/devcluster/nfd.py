"""NFD's master outside a cluster. Its workers are the simulated nodes.

It refuses to start before the node that it is told to live on exists, and it can listen on all interfaces or on none:
it is given a port that no machine has, which it reports and does without.
"""

from __future__ import annotations

from typing import Any, Final

from devcluster.build import Binaries
from devcluster.control_plane import ADMINISTRATORS, CLIENTS, ControlPlane
from devcluster.paths import Layout
from devcluster.probe import says
from devcluster.process import Command
from devcluster.supervisor import Launch
from devcluster.versions import NFD

NAMESPACE: Final = "nfd"


class NodeFeatureDiscovery:
    def __init__(self, layout: Layout, binaries: Binaries, control_plane: ControlPlane) -> None:
        self._binaries = binaries
        self._folder = layout.root / "nfd"
        self._kubeconfig = control_plane.kubeconfig("nfd-master", ADMINISTRATORS)

    def crds(self) -> list[dict[str, Any]]:
        return self._binaries.manifests(NFD, "crds")

    def launch(self, node: str) -> Launch:
        """`node` must exist; the master annotates it as its own."""
        self._folder.mkdir(parents=True, exist_ok=True)
        configuration = self._folder / "nfd-master.conf"
        configuration.write_text("{}\n")
        arguments = [
            str(self._binaries["nfd-master"]),
            f"-kubeconfig={self._kubeconfig}",
            f"-config={configuration}",
            "-port=-1",
        ]
        command = Command(
            part="nfd-master",
            arguments=arguments,
            stage=CLIENTS,
            environment={"KUBERNETES_NAMESPACE": NAMESPACE, "NODE_NAME": node},
        )
        return command, says("http server stopped")
