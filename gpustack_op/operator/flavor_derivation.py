"""Derives the ResourceFlavors: one for every kind of node, by CPU, cards, system and count.

Owns      ResourceFlavors labelled `resource.gpustack.ai/type=nodes`.
Never     deletes a flavor that a queue lists or a Workload is on: with the object gone, Kueue forgets what runs there
          and grants it again.
Woken by  ResourceFlavor (primary), what nodes offer (Nodes, NodeFeatures, settings), ClusterQueues, Workloads.
Promises  a flavor that no node backs any more first offers nothing, and goes when nothing leans on it; Kueue has a
          flavor's spec immutable, so one that must change goes the same way and is made anew; a settled cluster sees no
          write.
"""

from __future__ import annotations

from typing import Any

from gpustack_op.api.kueue import RESOURCE_FLAVORS, ClusterQueue, ResourceFlavor, Workload
from gpustack_op.operator.informers import Informers
from gpustack_op.operator.node_states import NodeStates
from gpustack_op.operator.queue_stages import assigned_flavors, is_finished, listed_flavors
from gpustack_op.runtime.apply import Owned, Writer, differs
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.controller import DONE, Request, Result
from gpustack_op.scheduling import labels
from gpustack_op.scheduling.flavor_facts import is_ours
from gpustack_op.scheduling.flavors import flavor
from gpustack_op.scheduling.pools import offers

OWNED = Owned(
    exact=(
        f"metadata.labels[{labels.GENERAL_PREFIX}*]",
        f"metadata.labels[{labels.ACCELERATOR_PREFIX}*]",
        f"metadata.annotations[{labels.NOTE_PREFIX}*]",
        "spec.nodeLabels",
    )
)


class FlavorDerivationReconciler:
    name = "flavor-derivation"

    def __init__(self, informers: Informers, client: Client, writer: Writer, states: NodeStates) -> None:
        self.informers = informers
        self.client = client
        self.writer = writer
        self.states = states
        informers.queues.add_index("flavor", flavors_of_queue)
        informers.workloads.add_index("flavor", flavors_of_workload)

    async def reconcile(self, request: Request) -> Result:
        present = self.informers.flavors.get(request.name)
        if present is not None and (present.deleting or not is_ours(present)):
            return DONE
        offered = self.states.of_flavor(request.name)
        if offered:
            wanted = flavor(offered)
            if present is None or not differs({"spec": wanted["spec"]}, present, OWNED):
                await self.writer.converge(RESOURCE_FLAVORS, wanted, present, owned=OWNED)
                return DONE
        if present is not None:
            await self._retire(present)
        return DONE

    async def _retire(self, present: ResourceFlavor) -> None:
        if offers(present):
            await self.client.merge_patch(
                RESOURCE_FLAVORS, present.name, nothing_offered(present), field_manager=self.writer.field_manager
            )
        elif not self._is_leaned_on(present.name):
            await self.writer.delete(RESOURCE_FLAVORS, present)

    def _is_leaned_on(self, name: str) -> bool:
        return bool(self.informers.queues.by_index("flavor", name) or self.informers.workloads.by_index("flavor", name))


def nothing_offered(present: ResourceFlavor) -> dict[str, Any]:
    """A patch that has the flavor offer nothing, so that its queues take its quota back."""
    capacities = {key: "0" for key in present.labels if key.endswith(".capacity")}
    return {"metadata": {"resourceVersion": present.metadata.resource_version, "labels": capacities}}


def flavors_of_queue(queue: ClusterQueue) -> list[str]:
    return [flavor.name for flavor in listed_flavors(queue)]


def flavors_of_workload(workload: Workload) -> list[str]:
    """The flavors a Workload is on; a finished one leans on none."""
    return [] if is_finished(workload) else sorted(assigned_flavors(workload))


def requests_of_queue(queue: ClusterQueue) -> list[Request]:
    return [Request(name) for name in flavors_of_queue(queue)]


def requests_of_workload(workload: Workload) -> list[Request]:
    return [Request(name) for name in flavors_of_workload(workload)]
