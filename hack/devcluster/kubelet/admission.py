"""Whether a Pod may run on this node: its devices first, the predicates after them.

A Pod can therefore be given devices and be refused all the same. A refusal is final.
"""

from __future__ import annotations

from collections.abc import Iterable

from devcluster.kubelet.devices import AllocationError
from devcluster.kubelet.manager import DeviceManager
from devcluster.kubelet.pods import Pod, amounts
from devcluster.kubelet.predicates import AFFINITY, Place, Refusal, refusal
from devcluster.node import Node, SimulatedNode
from gpustack_op.api.quantity import Quantity
from gpustack_op.runtime.errors import NETWORK_ERRORS, ApiError


class Admission:
    def __init__(self, devices: DeviceManager, node: SimulatedNode) -> None:
        self._devices = devices
        self._node = node

    async def judge(self, pod: Pod, others: Iterable[Pod]) -> Refusal | None:
        """`others` are the active Pods beside it."""
        try:
            await self._devices.admit(pod)
        except AllocationError as error:
            return Refusal("UnexpectedAdmissionError", f"Allocate failed due to {error}, which is unexpected")
        present = list(others)
        found = refusal(pod, present, self._place(pod, self._node.seen))
        if found is None or found.reason != AFFINITY:
            return found
        # The labels may be old; nothing is refused for them without having asked.
        try:
            return refusal(pod, present, self._place(pod, await self._node.look()))
        except (ApiError, *NETWORK_ERRORS):
            return found

    def _place(self, pod: Pod, node: Node | None) -> Place:
        """What the node offers, and no less than this node's own records say is held already."""
        if node is None:
            return Place(name=self._node.name, labels={}, allocatable={})
        allocatable = amounts(node.status.allocatable)
        for resource, count in self._devices.raised(pod).items():
            allocatable[resource] = max(allocatable.get(resource, Quantity.of(0)), Quantity.of(count))
        return Place(name=node.name, labels=node.labels, allocatable=allocatable, taints=node.spec.taints)
