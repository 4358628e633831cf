"""Kueue's own configuration, as the pools need it.

Promises   Requests become credits; a queue charges only what it covers; Kueue neither gives up on Pods that are slow to
           become ready nor touches the namespaces that the control plane lives in.
Left out   Addresses, ports and certificates: these depend on where Kueue runs and are merged in by whoever starts it.
"""

from __future__ import annotations

from typing import Any, Final

from gpustack_op.scheduling.credits import transformations
from gpustack_op.scheduling.manufacturers import MANUFACTURERS, Manufacturers
from gpustack_op.scheduling.names import SYSTEM_NAMESPACE

KUEUE_NAMESPACE: Final = "kueue-system"
NFD_NAMESPACE: Final = "nfd"

FRAMEWORKS: Final = ("batch/job", "pod", "deployment", "statefulset")
"""What may enter a queue: the kinds that every cluster has. Others need their own CRDs."""

CLIENT_QPS: Final = 200
CLIENT_BURST: Final = 400
"""The client's limit sets the pace of a burst: 200 Pods run within 25 s at 200/400, within 139 s at 20/30."""

FEATURE_GATES: Final = {
    "QuotaCheckStrategy": True,
    "TopologyAwareScheduling": True,
    "TASBalancedPlacement": True,
    "AssignQueueLabelsForPods": False,
    # Without it a Pod that is bound or was running, and is not ready for half an hour, would be deleted.
    "DisableWaitForPodsReady": True,
    # An aggregated API server and a multi-cluster dispatcher that nobody here uses.
    "VisibilityOnDemand": False,
    "MultiKueue": False,
}

CONCURRENCY: Final = {
    "Job.batch": 5,
    "Pod": 5,
    "Workload.kueue.x-k8s.io": 5,
    "LocalQueue.kueue.x-k8s.io": 1,
    "ClusterQueue.kueue.x-k8s.io": 1,
    "ResourceFlavor.kueue.x-k8s.io": 1,
}


def kueue_config(
    *,
    manufacturers: Manufacturers = MANUFACTURERS,
    namespace: str = KUEUE_NAMESPACE,
    system_namespace: str = SYSTEM_NAMESPACE,
    nfd_namespace: str = NFD_NAMESPACE,
) -> dict[str, Any]:
    """The document that Kueue reads with `--config`; `namespace` is Kueue's own."""
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": namespace,
        "health": {"healthProbeBindAddress": ":8081"},
        "metrics": {"bindAddress": ":8443"},
        "webhook": {"port": 9443},
        "leaderElection": {"leaderElect": True, "resourceName": "c1f6bfd2.kueue.x-k8s.io"},
        "controller": {"groupKindConcurrency": dict(CONCURRENCY)},
        "clientConnection": {"qps": CLIENT_QPS, "burst": CLIENT_BURST},
        "featureGates": dict(FEATURE_GATES),
        "integrations": {"frameworks": list(FRAMEWORKS)},
        "managedJobsNamespaceSelector": _outside(system_namespace, nfd_namespace, namespace),
        "resources": {
            "quotaCheckStrategy": "IgnoreUndeclared",
            "transformations": transformations(manufacturers),
        },
    }


def _outside(*namespaces: str) -> dict[str, Any]:
    """Every namespace but these and Kubernetes' own. A label selector knows no prefix, so `kube-*` is spelled out."""
    closed = dict.fromkeys(("kube-system", "kube-public", "kube-node-lease", *namespaces))
    return {
        "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(closed)}],
    }
