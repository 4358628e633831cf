"""Puts every node's Devices into its pools, or takes it out, and ends it with its node.

Owns      the labels `gpustack.ai/managed` and `general.feature.gpustack.ai/*` of Devices, and the annotation that says
          why a managed node's cards are in no pool; an Event on the Node says the same.
Never     touches the spec and the ledger, which are the agent's; deletes Devices whose node is not known to be gone.
Woken by  Devices (primary), what the node offers (Nodes, NodeFeatures, settings).
Promises  Devices are labelled managed exactly while their node is in a pool; a settled cluster sees no write.
"""

from __future__ import annotations

from typing import Any

from gpustack_op.api.core import NODES, Node
from gpustack_op.api.worker import DEVICES, Devices
from gpustack_op.operator.informers import Informers
from gpustack_op.operator.node_states import NodeState, NodeStates
from gpustack_op.runtime.apply import Owned, Writer
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.controller import DONE, Request, Result
from gpustack_op.runtime.errors import NotFound
from gpustack_op.runtime.events import Recorder
from gpustack_op.scheduling import labels

LEFT_OUT = "gpustack.ai/left-out"
"""Annotation of Devices: the sentence that says why the node's cards are in no pool."""

OWNED = Owned(exact=(f"metadata.labels[{labels.GENERAL_PREFIX}*]", f"metadata.annotations[{LEFT_OUT}*]"))


def wanted_marks(name: str, state: NodeState) -> dict[str, Any]:
    marks = {labels.MANAGED: labels.flag(bool(state.flavors))}
    if state.general_key:
        marks[labels.general(state.general_key)] = labels.TRUE
    annotations = {LEFT_OUT: state.left_out} if state.left_out else {}
    return {"metadata": {"name": name, "labels": marks, "annotations": annotations}}


class DevicesReconciler:
    name = "devices"

    def __init__(
        self, informers: Informers, client: Client, writer: Writer, recorder: Recorder, states: NodeStates
    ) -> None:
        self.informers = informers
        self.client = client
        self.writer = writer
        self.recorder = recorder
        self.states = states
        self._told: dict[str, str] = {}

    async def reconcile(self, request: Request) -> Result:
        present = self.informers.devices.get(request.name)
        node = self.informers.nodes.get(request.name)
        state = self.states.state(request.name)
        self._tell(request.name, node, state.left_out)
        if present is None or present.deleting:
            return DONE
        if node is None:
            await self._end(present)
        else:
            await self.writer.converge(DEVICES, wanted_marks(present.name, state), present, owned=OWNED)
        return DONE

    def _tell(self, name: str, node: Node | None, left_out: str) -> None:
        """Each reason once, on the Node: one without cards has no Devices to read it on."""
        if node is None or not left_out:
            self._told.pop(name, None)
        elif self._told.get(name) != left_out:
            self._told[name] = left_out
            self.recorder.event(node, "Warning", "LeftOutOfPools", left_out, action="PoolNode")

    async def _end(self, present: Devices) -> None:
        """Garbage collection would do it too, but may come minutes late; the server is asked, since a cache may lag."""
        try:
            await self.client.get(NODES, present.name)
        except NotFound as absence:
            if absence.names_object:
                await self.writer.delete(DEVICES, present)
