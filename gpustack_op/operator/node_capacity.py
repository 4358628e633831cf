"""Keeps the counting resources in a Node's capacity: what its cards hold in units, percents and MiB.

Owns      the keys of `Node.status.capacity` that a row of the manufacturers' table names as counting.
Never     names another key, nor the pool keys of the device plugins, which are the kubelet's.
Woken by  Nodes (primary), Devices, what the node offers.
Promises  a family's keys are there exactly while its plugin is and the node is managed; a settled node sees no write.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpustack_op.api.core import NODES, Node
from gpustack_op.api.quantity import Quantity, QuantityError
from gpustack_op.api.worker import Devices
from gpustack_op.operator.informers import Informers
from gpustack_op.operator.node_states import NodeStates
from gpustack_op.runtime.apply import Writer
from gpustack_op.runtime.cache import Change
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.controller import DONE, Request, Result
from gpustack_op.runtime.errors import NotFound
from gpustack_op.scheduling.manufacturers import MANUFACTURERS, Manufacturers
from gpustack_op.scheduling.node_capacity import counting_resources


def is_counting(resource: str, manufacturers: Manufacturers = MANUFACTURERS) -> bool:
    row = manufacturers.of_resource(resource)
    if row is None:
        return False
    pools = {row.base_resource, row.shared, row.sliced, row.partitioned, row.visibility}
    return resource not in pools


def capacity_patch(
    capacity: Mapping[str, str], devices: Devices | None, *, managed: bool, manufacturers: Manufacturers = MANUFACTURERS
) -> dict[str, str | None]:
    """What has to change in the capacity; None takes a key away."""
    wanted: dict[str, int] = {}
    if managed and devices is not None:
        for row in manufacturers:
            wanted |= counting_resources(row, devices.spec.groups or (), capacity, devices.status.groups or ())
    stale = {key: None for key in capacity if is_counting(key, manufacturers) and key not in wanted}
    changed = {key: str(amount) for key, amount in wanted.items() if not _is(capacity.get(key), amount)}
    return {**stale, **changed}


def capacity_changed(change: Change[Node]) -> bool:
    """Not the heartbeats."""
    old, new = change.old, change.new
    return old is None or new is None or old.status.capacity != new.status.capacity


class NodeCapacityReconciler:
    name = "node-capacity"

    def __init__(self, informers: Informers, client: Client, writer: Writer, states: NodeStates) -> None:
        self.informers = informers
        self.client = client
        self.writer = writer
        self.states = states

    async def reconcile(self, request: Request) -> Result:
        node = self.informers.nodes.get(request.name)
        if node is None or node.deleting:
            return DONE
        managed = self.states.state(node.name).managed
        devices = self.informers.devices.get(node.name)
        patch = capacity_patch(node.status.capacity or {}, devices, managed=managed)
        if patch:
            await self._write(node, patch)
        return DONE

    async def _write(self, node: Node, patch: Mapping[str, str | None]) -> None:
        body = {"metadata": {"uid": node.uid}, "status": {"capacity": patch}}
        manager = self.writer.field_manager
        try:
            await self.client.merge_patch(NODES, node.name, body, subresource="status", field_manager=manager)
        except NotFound:
            return


def _is(text: str | None, amount: int) -> bool:
    try:
        return text is not None and Quantity.parse(text) == Quantity.of(amount)
    except QuantityError:
        return False
