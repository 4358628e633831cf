"""Where the development cluster keeps its files.

Everything of one cluster is under `.state/<name>/` of this repository; binaries are shared by all checkouts, under
the user's cache folder. A short link in the folder for temporary files leads to the kubelets' folders, since the kernel
takes 107 bytes for a socket's path and a checkout may lie deeper than that.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from devcluster.errors import ClusterError
from devcluster.kubelet.folders import Folders

REPOSITORY = Path(__file__).resolve().parents[2]
TOOLS = Path(__file__).resolve().parent / "tools"
MACHINES = REPOSITORY / "hack" / "machines"
MANIFESTS = REPOSITORY / "manifests"
KUEUE_CONFIGURATION = MANIFESTS / "kueue" / "config.yaml"

NAME_VARIABLE = "GPUSTACK_DEVCLUSTER"
"""The environment variable that says which cluster a command means."""

DEFAULT_NAME = "demo"

LONGEST_NODE = 24
"""Characters of a node's name that a socket's path has room for; longer ones are shortened."""

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")


def cache_root() -> Path:
    """`$XDG_CACHE_HOME/gpustack-op`, or the same under `~/.cache`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpustack-op"


def selected_name() -> str:
    return os.environ.get(NAME_VARIABLE) or DEFAULT_NAME


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of one cluster."""

    name: str
    root: Path

    @classmethod
    def of(cls, name: str, *, state: Path = REPOSITORY / ".state") -> Layout:
        if not _NAME.fullmatch(name):
            raise ClusterError(
                f'cluster name "{name}": use at most 40 lower-case letters, digits and dashes, no dash at either end'
            )
        return cls(name, state / name)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's; what a person exports as KUBECONFIG."""
        return self.root / "kubeconfig"

    @property
    def kubectl(self) -> Path:
        """The kubectl that was built with the cluster's other parts."""
        return self.root / "kubectl"

    @property
    def server(self) -> Path:
        """Holds the API server's URL."""
        return self.root / "server"

    @property
    def certificates(self) -> Path:
        return self.root / "certificates"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def audit_log(self) -> Path:
        return self.root / "audit.log"

    @property
    def pids(self) -> Path:
        """One file a running process, named by its part."""
        return self.root / "pids"

    @property
    def lock(self) -> Path:
        """Held by the supervisor for as long as it lives."""
        return self.root / "lock"

    @property
    def socket(self) -> Path:
        return self.root / "control.sock"

    @property
    def kubelets(self) -> Path:
        return self.root / "kubelets"

    @property
    def short(self) -> Path:
        """The link to `kubelets`. All paths of sockets begin with it."""
        digest = hashlib.sha256(str(self.root).encode()).hexdigest()[:10]
        return Path(tempfile.gettempdir()) / f"gpk-{digest}"

    @property
    def runtime_socket(self) -> Path:
        return self.kubelets / "runtime.sock"

    def kubelet(self, node: str) -> Folders:
        """By their short names, which the node's agent uses too."""
        digest = hashlib.sha256(node.encode()).hexdigest()[:8]
        return Folders(self.short / (node if len(node) <= LONGEST_NODE else f"{node[:15]}-{digest}"))

    def log(self, part: str) -> Path:
        return self.logs / f"{part}.log"
