"""The project's own programs, run as in a cluster: by service account, with the variables and files a Pod gets."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from devcluster.control_plane import CLIENTS, ControlPlane
from devcluster.paths import Layout
from devcluster.ports import Ports
from devcluster.probe import http_ready
from devcluster.process import Command
from devcluster.supervisor import Launch
from devcluster.tokens import Token

NAMESPACE: Final = "gpustack-system"
OPERATOR: Final = "gpustack-operator"
AGENT: Final = "gpustack-agent"
"""Console scripts, and service accounts of the same names."""

OPERATOR_PART: Final = "operator"

PROGRAMS: Final = CLIENTS + 1
"""Stage: they end before what they talk to."""


def agent_part(node: str) -> str:
    return f"agent-{node}"


class Programs:
    def __init__(self, layout: Layout, ports: Ports, control_plane: ControlPlane) -> None:
        self._layout = layout
        self._ports = ports
        self._control_plane = control_plane

    def operator_token(self) -> Token:
        return Token(account=OPERATOR, namespace=NAMESPACE, file=self._token_file(OPERATOR_PART))

    def agent_token(self, node: str, uid: str) -> Token:
        """Only a token bound to its node says which node its holder lives on, and policies ask for that."""
        bound = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}
        return Token(account=AGENT, namespace=NAMESPACE, file=self._token_file(agent_part(node)), bound_to=bound)

    def operator(self, extra: Sequence[str] = ()) -> Launch:
        """Without leader election, or a killed one's successor would wait for its lease to run out."""
        webhook = f"127.0.0.1:{self._ports['operator-webhook']}"
        arguments = [f"--webhook-bind={webhook}", f"--webhook-url=https://{webhook}", "--no-leader-elect", *extra]
        return self._launch(OPERATOR, OPERATOR_PART, arguments)

    def agent(self, node: str, inventory: Path, extra: Sequence[str] = ()) -> Launch:
        folder = self._layout.root / "agents" / node
        arguments = [
            f"--node={node}",
            "--detector=simulated",
            f"--inventory={inventory}",
            f"--kubelet-root={self._layout.kubelet(node).root}",
            f"--state-dir={_made(folder / 'state')}",
            f"--lock-dir={_made(folder / 'lock')}",
            *extra,
        ]
        return self._launch(AGENT, agent_part(node), arguments)

    def _launch(self, program: str, part: str, arguments: Sequence[str]) -> Launch:
        metrics = f"127.0.0.1:{self._ports[f'{part}-metrics']}"
        common = [
            f"--namespace={NAMESPACE}",
            f"--metrics-bind={metrics}",
            f"--health-bind=127.0.0.1:{self._ports[f'{part}-health']}",
        ]
        executable = Path(sys.executable).parent / program
        command = Command(
            part=part,
            arguments=[str(executable), *common, *arguments],
            stage=PROGRAMS,
            environment=self._environment(self._token_file(part)),
            grace=10,
        )
        return command, http_ready(f"http://{metrics}/readyz")

    def _token_file(self, part: str) -> Path:
        return self._layout.root / "tokens" / part

    def _environment(self, token_file: Path) -> dict[str, str]:
        return {
            "KUBERNETES_SERVICE_HOST": self._control_plane.host,
            "KUBERNETES_SERVICE_PORT": str(self._control_plane.port),
            "GPUSTACK_TOKEN_FILE": str(token_file),
            "GPUSTACK_CA_FILE": str(self._control_plane.authority_file),
            "PYTHONUNBUFFERED": "1",
        }


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
