"""The kubelet's own device manager as a program, which the simulated kubelet is compared with.

Guarantees   Built once for each version of Kubernetes, of Go and of the program, and kept beside the other binaries.
             Nothing of a cluster needs it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from devcluster.compile import Compilation, Progress, compile_program
from devcluster.go import Go, provide
from devcluster.paths import TOOLS, cache_root

PROGRAM: Final = "kubelet-oracle"
MODULE: Final = TOOLS / "kubernetes"
SOURCE: Final = MODULE / "oracle"


def oracle(progress: Progress) -> Path:
    """The program; it takes about half a minute if Kubernetes was built here, and some minutes else."""
    go = provide()
    target = cache_root() / "devcluster" / f"oracle-{_key(go)}" / PROGRAM
    if not target.exists():
        compilation = Compilation(PROGRAM, f"./{SOURCE.name}", "-s -w", MODULE, target)
        compile_program(go, compilation, progress.part(1, 1, PROGRAM))
    return target


def _key(go: Go) -> str:
    digest = hashlib.sha256(go.version.encode())
    for file in (MODULE / "go.mod", MODULE / "go.sum", *sorted(SOURCE.iterdir())):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
