"""What the kubelet knows of devices: lists, health, who holds what, and what the node offers.

Guarantees   As the real device manager, in what it checks and in what it does not: an id counts as often as the sets
             it is in, anything but `Healthy` is unhealthy, an empty id is an id. A plugin that has ended leaves its
             ids in capacity for five minutes, then the resource is dropped. The checkpoint is written at every list.
Recovery     A checkpoint that cannot be read is said, and the start goes on with nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from devcluster.kubelet import checkpoint
from devcluster.kubelet.checkpoint import Checkpoint, CheckpointError
from devcluster.kubelet.folders import Folders
from devcluster.kubelet.grants import Grants
from devcluster.kubelet.plugin import Plugin
from devcluster.node_resources import Offer
from gpustack_op.agent.proto.deviceplugin_pb2 import Device

HEALTHY: Final = "Healthy"

STOPPED_GRACE: Final = 300.0
"""Seconds for which the resource of a plugin that has ended stays in capacity."""


class AllocationError(Exception):
    """A container cannot have what it asks for; the message is the real kubelet's."""


class Devices:
    """`active` gives the UIDs of the Pods that may hold devices, `clock` seconds."""

    def __init__(
        self,
        folders: Folders,
        *,
        active: Callable[[], Collection[str]],
        clock: Callable[[], float],
        say: Callable[[str], None],
        health_changed: Callable[[str], None] = lambda pod: None,
        stopped_grace: float = STOPPED_GRACE,
    ) -> None:
        self.grants = Grants()
        self.plugins: dict[str, Plugin] = {}
        self.known: dict[str, dict[str, Device]] = {}
        self.healthy: dict[str, set[str]] = {}
        self.unhealthy: dict[str, set[str]] = {}
        self.allocated: dict[str, set[str]] = {}
        self.sources_ready = False
        """Whether all Pods of the node are known; before that nothing is given back."""
        self._folders = folders
        self._active = active
        self._clock = clock
        self._say = say
        self._health_changed = health_changed
        self._stopped_grace = stopped_grace

    def restore(self) -> None:
        """Takes over what the checkpoint tells: who holds what. Resources offer nothing until their plugin is back."""
        try:
            found = checkpoint.read(self._folders)
        except CheckpointError as error:
            self._say(f"goes on without its checkpoint: {error}")
            return
        if found is None:
            self._say("there is no checkpoint")
            return
        self.grants.restore(found.entries)
        self.recount()
        for resource in found.registered:
            self.healthy[resource], self.unhealthy[resource] = set(), set()
            stopped = self.plugins[resource] = Plugin(resource)
            stopped.stopped_at = self._clock()

    def connected(self, plugin: Plugin) -> None:
        """Takes the place of an older one of the same resource at once."""
        self.plugins[plugin.resource] = plugin

    def listed(self, resource: str, devices: Iterable[Device]) -> None:
        """The whole list; the last message wins, whoever sent it."""
        before = self.known.get(resource, {})
        known = self.known[resource] = {}
        healthy: set[str] = set()
        unhealthy: set[str] = set()
        self.healthy[resource], self.unhealthy[resource] = healthy, unhealthy
        changed: set[str] = set()
        for device in devices:
            if device.ID not in before or before[device.ID].health != device.health:
                changed.add(device.ID)
            known[device.ID] = device
            (healthy if device.health == HEALTHY else unhealthy).add(device.ID)
        for pod in {self.grants.holder(device) for device in changed} - {None}:
            self._health_changed(str(pod))
        self.try_to_checkpoint()

    def disconnected(self, resource: str) -> None:
        """All that the resource's present plugin offered is unhealthy."""
        plugin = self.plugins.get(resource)
        if plugin is None:
            return
        self.unhealthy.setdefault(resource, set()).update(self.healthy.get(resource, ()))
        if resource in self.healthy:
            self.healthy[resource] = set()
        plugin.stopped_at = self._clock()

    def offer(self) -> Offer:
        """For the node's status, which therefore must be written: what is dropped is told once."""
        dropped = [resource for resource in self.healthy.keys() | self.unhealthy.keys() if self._is_gone(resource)]
        for resource in dropped:
            self.plugins.pop(resource, None)
            self.healthy.pop(resource, None)
            self.unhealthy.pop(resource, None)
        if dropped:
            self.try_to_checkpoint()
        allocatable = {resource: len(ids) for resource, ids in self.healthy.items()}
        capacity = dict(allocatable)
        for resource, ids in self.unhealthy.items():
            capacity[resource] = capacity.get(resource, 0) + len(ids)
        return Offer(capacity, allocatable, dropped)

    def concerns(self, resource: str) -> bool:
        """Whether a plugin has listed the resource, or somebody holds some of it. Others are nobody's business."""
        return resource in self.healthy or resource in self.allocated

    def give_back(self) -> None:
        """Frees what Pods hold that are not active any more."""
        active = self._active()
        if self.sources_ready and self.grants.keep_only(active):
            self.recount()

    def recount(self) -> None:
        """What is allocated is what is recorded; ids that were only reserved are free again."""
        self.allocated = self.grants.held()

    def nodes(self, resource: str) -> dict[str, tuple[int, ...]]:
        """NUMA nodes by id."""
        known = self.known.get(resource, {})
        return {device: tuple(node.ID for node in each.topology.nodes) for device, each in known.items()}

    def write_checkpoint(self) -> None:
        registered = {resource: tuple(ids) for resource, ids in self.healthy.items()}
        try:
            checkpoint.write(self._folders, Checkpoint(self.grants.entries(), registered))
        except OSError as error:
            name = self._folders.checkpoint.name
            raise AllocationError(f'failed to write checkpoint file "{name}": {error}') from error

    def try_to_checkpoint(self) -> None:
        try:
            self.write_checkpoint()
        except AllocationError as error:
            self._say(str(error))

    def _is_gone(self, resource: str) -> bool:
        plugin = self.plugins.get(resource)
        if plugin is None:
            return True
        return plugin.stopped_at is not None and self._clock() - plugin.stopped_at > self._stopped_grace
