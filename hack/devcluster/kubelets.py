"""The node side as processes: one container runtime for all, and a kubelet for each node."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from devcluster.containers.__main__ import READY as RUNTIME_READY
from devcluster.containers.client import RuntimeClient
from devcluster.control_plane import ADMINISTRATORS, CLIENTS, ControlPlane
from devcluster.kubelet import settings
from devcluster.kubelet.__main__ import READY as KUBELET_READY
from devcluster.kubelet.settings import Settings, Timing
from devcluster.paths import REPOSITORY, Layout
from devcluster.ports import Ports
from devcluster.probe import says
from devcluster.process import Command
from devcluster.supervisor import Launch

RUNTIME: Final = "container-runtime"

KUBELETS: Final = CLIENTS + 1
"""Stage: they end before the runtime does, and leave its containers to it."""


def kubelet_part(node: str) -> str:
    return f"kubelet-{node}"


class Kubelets:
    def __init__(self, layout: Layout, ports: Ports, control_plane: ControlPlane, timing: Timing) -> None:
        self._layout = layout
        self._ports = ports
        self._control_plane = control_plane
        self._timing = timing

    def runtime(self) -> Launch:
        arguments = ["-m", "devcluster.containers", str(self._layout.runtime_socket)]
        return self._launch(RUNTIME, arguments, CLIENTS), says(RUNTIME_READY)

    def kubelet(self, node: str, inventory: Path) -> Launch:
        """A Node of this name must be there."""
        part = kubelet_part(node)
        file = self._layout.root / "settings" / f"{part}.json"
        config = self._control_plane.client(f"system:node:{node}", ADMINISTRATORS)
        serving = self._control_plane.serving
        settings.write(
            file,
            Settings(
                node=node,
                inventory=str(inventory),
                root=str(self._layout.kubelet(node).root),
                runtime=str(self._layout.runtime_socket),
                server=config.server,
                authority=str(config.ca_file),
                certificate=str(config.certificate_file),
                key=str(config.key_file),
                port=self._ports[part],
                serving_certificate=str(serving.certificate),
                serving_key=str(serving.key),
                timing=self._timing,
            ),
        )
        return self._launch(part, ["-m", "devcluster.kubelet", str(file)], KUBELETS), says(KUBELET_READY)

    async def end_containers(self, node: str) -> None:
        runtime = RuntimeClient(self._layout.runtime_socket)
        snapshot = await runtime.snapshot(node)
        await runtime.remove([state.id for state in snapshot.states])

    def _launch(self, part: str, arguments: list[str], stage: int) -> Command:
        environment = {"PYTHONPATH": f"{REPOSITORY / 'hack'}:{REPOSITORY}", "PYTHONUNBUFFERED": "1"}
        return Command(part=part, arguments=[sys.executable, *arguments], stage=stage, environment=environment)
