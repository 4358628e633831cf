"""kubectl against a cluster: the one that was built with it, and no file of the user's."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Sequence
from typing import NoReturn

from devcluster.errors import KubectlError, NotUpError
from devcluster.paths import Layout, selected_name


def become(ours: Sequence[str], theirs: Sequence[str]) -> NoReturn:
    """Turns this process into kubectl. `ours` are the words of `hack/dev` up to and including `kubectl`."""
    parser = argparse.ArgumentParser(prog="hack/dev")
    parser.add_argument("--name", default=selected_name())
    parser.add_argument("kubectl", choices=["kubectl"])
    layout = Layout.of(parser.parse_args(ours).name)
    if not layout.kubectl.exists():
        raise NotUpError(f'cluster "{layout.name}" is not up; start it with: hack/dev --name {layout.name} up')
    os.execve(layout.kubectl, ["kubectl", *theirs], environment(layout))


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
