"""Keeps the labels of a Node that tell what one card of it can still take.

Owns      the Node labels `sliced-max-free-units.fit.gpustack.ai/*` and `shared-free-cards.fit.gpustack.ai/*`.
Never     touches another label.
Woken by  Devices, Nodes (primary), what the node offers.
Promises  the labels follow the ledger; they go with the cards and with the management of the node; a settled node sees
          no write.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpustack_op.api.core import NODES, Node
from gpustack_op.api.worker import Devices
from gpustack_op.operator.informers import Informers
from gpustack_op.operator.node_states import NodeStates
from gpustack_op.runtime.apply import Writer
from gpustack_op.runtime.cache import Change
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.controller import DONE, Request, Result
from gpustack_op.runtime.errors import NotFound
from gpustack_op.scheduling.fit_labels import fit_labels, is_fit_label


def label_patch(present: Mapping[str, str], devices: Devices | None, *, managed: bool) -> dict[str, str | None]:
    """What has to change in the Node's labels; None takes one away."""
    wanted = fit_labels(devices) if managed and devices is not None else {}
    stale = {key: None for key in present if is_fit_label(key) and key not in wanted}
    changed = {key: value for key, value in wanted.items() if present.get(key) != value}
    return {**stale, **changed}


def fit_changed(change: Change[Node]) -> bool:
    return _fit_of(change.old) != _fit_of(change.new) or change.old is None or change.new is None


class FitLabelsReconciler:
    name = "fit-labels"

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
        patch = label_patch(node.labels, self.informers.devices.get(node.name), managed=managed)
        if patch:
            await self._write(node, patch)
        return DONE

    async def _write(self, node: Node, patch: Mapping[str, str | None]) -> None:
        body = {"metadata": {"uid": node.uid, "labels": patch}}
        try:
            await self.client.merge_patch(NODES, node.name, body, field_manager=self.writer.field_manager)
        except NotFound:
            return


def _fit_of(node: Node | None) -> dict[str, str]:
    return {key: value for key, value in node.labels.items() if is_fit_label(key)} if node else {}
