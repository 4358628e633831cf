"""A simulated machine: the Node of its kubelet and the NodeFeature of NFD's worker.

Guarantees   The Node is Ready and stays so while this runs, also after the API server was away or the node was marked
             unready. Extended resources that somebody puts into capacity appear in allocatable, and so does what the
             node's device plugins offer. The inventory is read again when its file changes.
Recovery     Whatever fails is tried again a second later, and said once.
"""

from __future__ import annotations

import asyncio
import datetime
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from devcluster import node_objects, node_resources, versions
from devcluster.install import FIELD_MANAGER
from devcluster.node_resources import NO_OFFER, Offer
from gpustack_op.agent import inventory
from gpustack_op.api.meta import KubeObject, PartialObject, Resource
from gpustack_op.api.nfd import NODE_FEATURES
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.errors import NETWORK_ERRORS, AlreadyExists, ApiError

HEARTBEAT: Final = node_objects.LEASE_SECONDS / 4
TICK: Final = 1.0
"""Seconds between two looks at the Node and at the inventory, unless said otherwise."""


SCHEDULABLE_WITHIN: Final = 60.0
"""Seconds; the controller manager takes about one."""

SCHEDULABLE_POLL: Final = 0.15

NOT_READY: Final = "node.kubernetes.io/not-ready"
"""The taint that every Node is born with, and that the controller manager takes away."""


class Condition(msgspec.Struct, frozen=True, rename="camel"):
    type: str = ""
    status: str = ""


class Status(msgspec.Struct, frozen=True, rename="camel"):
    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    conditions: tuple[Condition, ...] = ()

    @property
    def ready(self) -> bool:
        return any(each.type == "Ready" and each.status == "True" for each in self.conditions)


class Spec(msgspec.Struct, frozen=True, rename="camel"):
    taints: tuple[dict[str, str], ...] = ()


class Node(KubeObject, frozen=True, kw_only=True):
    """What a kubelet looks at of its own Node."""

    spec: Spec = Spec()
    status: Status = Status()

    @property
    def schedulable(self) -> bool:
        return not any(taint.get("key") == NOT_READY for taint in self.spec.taints)


NODES: Final = Resource("", "v1", "nodes", "Node", Node)
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease", PartialObject, namespaced=True)


class SimulatedNode:
    """`file` is the machine's inventory, which the node's agent reads too. `period` is in seconds.

    `offer` says what device plugins offer, `endpoint` is what the status says of how to reach the kubelet.
    """

    def __init__(
        self,
        file: Path,
        machine: inventory.Machine,
        client: Client,
        say: Callable[[str], None],
        *,
        period: float = TICK,
        offer: Callable[[], Offer] = lambda: NO_OFFER,
        endpoint: Mapping[str, Any] | None = None,
    ) -> None:
        self.file = file
        self.machine = machine
        self.uid = ""
        self.seen: Node | None = None
        """The Node as it was at the last look."""
        self._period = period
        self._offer = offer
        self._endpoint = endpoint
        self._client = client
        self._say = say
        self._read_at = file.stat().st_mtime_ns
        self._renewed_at = 0.0

    @property
    def name(self) -> str:
        return self.machine.node

    async def join(self) -> None:
        """Posts the Node and its Lease. A Node that is there already is taken over."""
        wanted = node_objects.node(self.machine, kubelet_version=versions.KUBERNETES.version, now=_now())
        try:
            node = await self._client.create(NODES, wanted)
        except AlreadyExists:
            await self._client.merge_patch(NODES, self.name, {"metadata": wanted["metadata"]})
            node = await self._patch_status(wanted["status"])
        self.uid = node.uid
        await self._client.apply(LEASES, node_objects.lease(self.name, self.uid), field_manager=FIELD_MANAGER)
        await self._renew()

    async def publish(self) -> None:
        """Publishes what NFD's worker would find."""
        feature = node_objects.node_feature(self.machine, self.uid, version=versions.NFD.version)
        await self._client.apply(NODE_FEATURES, feature, field_manager=FIELD_MANAGER)

    async def until_schedulable(self) -> None:
        """Returns when the controller manager has seen that the node is ready."""
        async with asyncio.timeout(SCHEDULABLE_WITHIN):
            while True:
                node = await self._client.get(NODES, self.name)
                if node.schedulable:
                    return
                await asyncio.sleep(SCHEDULABLE_POLL)

    async def leave(self) -> None:
        """Removes the Node; what it owns goes with it."""
        await self._client.delete(NODES, self.name)

    async def run(self) -> None:
        """For ever, after `join`, by whoever that was done."""
        failing = False
        while True:
            try:
                await self._tick()
            except (ApiError, *NETWORK_ERRORS) as error:
                if not failing:
                    self._say(f"{self.name}: {error}; trying again")
                failing = True
            else:
                failing = False
            await asyncio.sleep(self._period)

    async def look(self) -> Node:
        """The Node as it is now."""
        self.seen = await self._client.get(NODES, self.name)
        return self.seen

    async def _tick(self) -> None:
        if time.monotonic() - self._renewed_at >= HEARTBEAT:
            await self._renew()
        node = await self.look()
        self.uid = node.uid
        if not node.status.ready:
            await self._patch_status({"conditions": node_objects.conditions(_now())})
        if self._endpoint is not None:
            await self._patch_status(self._endpoint)
            self._endpoint = None
        change = node_resources.change(node.status.capacity, node.status.allocatable, self._offer())
        if change:
            self.seen = await self._patch_status(change)
        await self._reread()

    async def _renew(self) -> None:
        renewal = node_objects.renewal(_now())
        await self._client.merge_patch(LEASES, self.name, renewal, namespace="kube-node-lease")
        self._renewed_at = time.monotonic()

    async def _reread(self) -> None:
        """A file that cannot be used is said once, when it appears, and the last good one stays in force."""
        try:
            modified = self.file.stat().st_mtime_ns
            if modified == self._read_at:
                return
            self._read_at = modified
            self.machine = inventory.load(self.file)
        except (OSError, inventory.InventoryError) as error:
            self._say(f"{self.name}: keeps its last good inventory: {error}")
            return
        status = node_objects.node_status(self.machine, kubelet_version=versions.KUBERNETES.version, now=_now())
        await self._patch_status(status)
        await self.publish()

    def _patch_status(self, status: Mapping[str, Any]) -> Awaitable[Node]:
        return self._client.merge_patch(NODES, self.name, {"status": status}, subresource="status")


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
