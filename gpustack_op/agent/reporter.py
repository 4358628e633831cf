"""Reports a node to the cluster: what CPU and which accelerators it has, and what is free on them.

Owns      NodeFeature `<node>-gpustack-device-manager`; of the Devices named after the node: the groups of our own
          manufacturers in spec and status, the labels for system, architecture and accelerators, and an annotation with
          the boot in which each card was last seen.
Never     touches what others state on the Devices, nor any other node's objects; deletes a NodeFeature, however long
          Node Feature Discovery takes with it; makes Devices for a node that never had an accelerator.
Woken by  the monitor, its own NodeFeature and Devices, its Node.
Promises  what is deleted or edited is put back; an account outlives its Devices object for as long as the agent lives;
          the NodeFeature is written before the Devices; a settled node sees no write.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from gpustack_op.agent import bodies
from gpustack_op.agent.devices_writer import DevicesWriter
from gpustack_op.agent.ledger import kept_ledger, ledger_json, rows_of
from gpustack_op.agent.sight import Sight
from gpustack_op.api.core import NODES, Node
from gpustack_op.api.nfd import NODE_FEATURES, NodeFeature
from gpustack_op.api.worker import DeviceGroup, Devices, LedgerGroup, LedgerRow
from gpustack_op.runtime.apply import Owned, Writer
from gpustack_op.runtime.controller import DONE, Request, Result
from gpustack_op.scheduling.device_groups import device_groups

OWNED = Owned(exact=("spec.labels", "spec.features.attributes.**", "spec.features.flags.**"))


class Cluster(Protocol):
    """The node's objects as they are now: informers, in a program."""

    namespace: str

    def node(self) -> Node | None: ...
    def node_feature(self) -> NodeFeature | None: ...
    def devices(self) -> Devices | None: ...


Settle = Callable[[], Awaitable[Sequence[LedgerGroup] | None]]
"""Gives the accounts as they are now; None where nobody knows better than the last report."""


async def nobody_settles() -> None:
    """For an agent that gives out no cards."""


class Reporter:
    """`with_memory` gives every group's id its memory size. `settle` computes the accounts."""

    name = "reporter"

    def __init__(
        self,
        cluster: Cluster,
        writer: Writer,
        devices_writer: DevicesWriter,
        sight: Callable[[], Sight | None],
        *,
        settle: Settle = nobody_settles,
        with_memory: bool = False,
    ) -> None:
        self._cluster = cluster
        self._writer = writer
        self._devices_writer = devices_writer
        self._sight = sight
        self._settle = settle
        self._with_memory = with_memory
        self._rows: dict[str, LedgerRow] = {}

    async def reconcile(self, _request: Request) -> Result:
        node, sight = self._cluster.node(), self._sight()
        if node is None or node.deleting or sight is None:
            return DONE  # the monitor wakes us when there is something to tell; all of it ends with the Node
        groups = device_groups((known.reported for known in sight.roster), with_memory=self._with_memory)
        await self._report_features(node, sight, groups)
        await self._report_devices(node, sight, groups)
        return DONE

    async def _report_features(self, node: Node, sight: Sight, groups: tuple[DeviceGroup, ...]) -> None:
        present = self._cluster.node_feature()
        if sight.host is None or (present is not None and (present.deleting or _of_a_former_node(present, node))):
            return
        body = bodies.node_feature(node, sight.host.cpu, groups, namespace=self._cluster.namespace)
        await self._writer.converge(NODE_FEATURES, body, present, owned=OWNED)

    async def _report_devices(self, node: Node, sight: Sight, groups: tuple[DeviceGroup, ...]) -> None:
        present = self._cluster.devices()
        if (present is None and not groups) or (present is not None and present.deleting):
            return
        body = bodies.devices(node, groups, sight.roster)
        present = await self._devices_writer.converge_spec(body, present, ours=sight.manufacturers) or present
        if present is not None:
            self._remember(rows_of(present), groups)
            settled = await self._settle()
            ledger = kept_ledger(groups, self._rows) if settled is None else ledger_json(settled)
            await self._devices_writer.converge_ledger(ledger, present, ours=sight.manufacturers)

    def _remember(self, rows: dict[str, LedgerRow], groups: tuple[DeviceGroup, ...]) -> None:
        """What the cluster says of a card counts; where it says nothing, what it said last."""
        cards = {card.id for group in groups for card in group.accelerators or ()}
        known = self._rows | rows
        self._rows = {card: row for card, row in known.items() if card in cards}


def _of_a_former_node(present: NodeFeature, node: Node) -> bool:
    """It is about to be garbage-collected, and no object can have two controllers; its end wakes us."""
    owners = [owner for owner in present.metadata.owner_references or () if owner.controller]
    return any(owner.kind == NODES.kind and owner.uid != node.uid for owner in owners)
