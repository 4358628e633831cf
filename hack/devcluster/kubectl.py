"""kubectl against a cluster: the one that was built with it, and no file of the user's."""

from __future__ import annotations

import asyncio
import os

from devcluster.errors import KubectlError
from devcluster.paths import Layout


def environment(layout: Layout) -> dict[str, str]:
    """What kubectl finds the cluster by. Its cache of what a server knows must not outlive the server."""
    return {
        **os.environ,
        "KUBECONFIG": str(layout.kubeconfig),
        "KUBECACHEDIR": str(layout.root / "kubectl-cache"),
    }


class Kubectl:
    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    async def __call__(self, *arguments: str, stdin: str = "") -> str:
        """What kubectl prints. When it fails, the error holds what it says."""
        process = await asyncio.create_subprocess_exec(
            str(self._layout.kubectl),
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment(self._layout),
        )
        output, complaint = await process.communicate(stdin.encode())
        if process.returncode != 0:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {complaint.decode().strip()}")
        return output.decode()
