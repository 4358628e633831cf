"""Keeps the one Kueue Topology that every flavor names, so that the node is known before the per-card check runs.

Owns      the Topology `gpustack` with the single level `kubernetes.io/hostname`.
Never     changes the levels of an existing Topology: Kueue has them immutable.
Woken by  Topologies.
Promises  a deleted Topology is put back; a settled cluster sees no write.
"""

from __future__ import annotations

from typing import Any

from gpustack_op.api.kueue import Topology
from gpustack_op.operator.informers import Informers
from gpustack_op.operator.single_object import SingleObjectReconciler
from gpustack_op.runtime.apply import Writer
from gpustack_op.runtime.controller import Request
from gpustack_op.scheduling import labels, names


def wanted_topology() -> dict[str, Any]:
    return {
        "metadata": {"name": names.TOPOLOGY, "labels": {labels.RESOURCE_TYPE: labels.TYPE_TOPOLOGY}},
        "spec": {"levels": [{"nodeLabel": names.TOPOLOGY_LEVEL}]},
    }


class TopologyReconciler(SingleObjectReconciler[Topology]):
    name = "topology"
    ONLY = Request(names.TOPOLOGY)

    def __init__(self, informers: Informers, writer: Writer) -> None:
        super().__init__(informers.topologies, writer, wanted_topology())
