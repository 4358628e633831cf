"""Keeps the one Kueue Topology that every flavor names, so that the node is known before the per-card check runs.

Owns      the Topology `gpustack` with the single level `kubernetes.io/hostname`.
Never     changes the levels of an existing Topology: Kueue has them immutable.
Woken by  Topologies.
Promises  a deleted Topology is put back; a settled cluster sees no write.
"""

from __future__ import annotations

from typing import Any

from gpustack_op.api.kueue import TOPOLOGIES
from gpustack_op.operator.informers import Informers
from gpustack_op.runtime.apply import Writer
from gpustack_op.runtime.controller import DONE, Request, Result
from gpustack_op.scheduling import labels, names


def wanted_topology() -> dict[str, Any]:
    return {
        "metadata": {"name": names.TOPOLOGY, "labels": {labels.RESOURCE_TYPE: labels.TYPE_TOPOLOGY}},
        "spec": {"levels": [{"nodeLabel": names.TOPOLOGY_LEVEL}]},
    }


class TopologyReconciler:
    name = "topology"
    ONLY = Request(names.TOPOLOGY)

    def __init__(self, informers: Informers, writer: Writer) -> None:
        self.informers = informers
        self.writer = writer

    async def reconcile(self, request: Request) -> Result:
        if request != self.ONLY:
            return DONE
        present = self.informers.topologies.get(names.TOPOLOGY)
        if present is None or not present.deleting:
            await self.writer.converge(TOPOLOGIES, wanted_topology(), present)
        return DONE
