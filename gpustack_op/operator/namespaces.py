"""Which namespaces are open to queues and workloads of ours."""

from __future__ import annotations

from gpustack_op.api.core import Namespace
from gpustack_op.scheduling.kueue_config import KUEUE_NAMESPACE, NFD_NAMESPACE

CLOSED_PREFIX = "kube-"


def is_open(namespace: Namespace, system_namespace: str) -> bool:
    """Closed are `kube-*` and the namespaces of the operator, Kueue and NFD; one that is ending takes nothing new."""
    if namespace.deleting or namespace.status.phase == "Terminating":
        return False
    return not (
        namespace.name.startswith(CLOSED_PREFIX) or namespace.name in {system_namespace, KUEUE_NAMESPACE, NFD_NAMESPACE}
    )
