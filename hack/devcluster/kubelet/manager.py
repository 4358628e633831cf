"""The device manager as the rest of the kubelet sees it.

Guarantees   A Pod is allocated container by container, plain init containers first. Before each start of a container
             its plugins are told if they asked for it; what is not recorded, after a checkpoint was lost, is allocated
             anew, then beside the admission of other Pods.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection
from typing import Final

from devcluster.kubelet.allocation import Allocator, Claimant
from devcluster.kubelet.devices import HEALTHY, STOPPED_GRACE, AllocationError, Devices
from devcluster.kubelet.folders import Folders
from devcluster.kubelet.given import Given, by_plugins
from devcluster.kubelet.grants import Grant
from devcluster.kubelet.plugin import PluginError
from devcluster.kubelet.pods import Json, Pod, claimant, claimants
from devcluster.kubelet.registration import Registrar
from devcluster.node_resources import Offer

NOTHING: Final = Given()


class DeviceManager:
    """`active` gives the UIDs of the Pods that may hold devices."""

    def __init__(
        self,
        folders: Folders,
        *,
        active: Callable[[], Collection[str]],
        say: Callable[[str], None],
        health_changed: Callable[[str], None] = lambda pod: None,
        seed: int | None = None,
        stopped_grace: float = STOPPED_GRACE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._active = active
        self._random = random.Random(seed)
        self._devices = Devices(
            folders,
            active=active,
            clock=clock,
            say=say,
            health_changed=health_changed,
            stopped_grace=stopped_grace,
        )
        self._allocator = Allocator(self._devices, randomness=self._random)
        self._registrar = Registrar(folders, self._devices, say)

    async def start(self, running: Collection[tuple[str, str]] = ()) -> None:
        """`running` are the containers, by Pod and name, that run at this moment."""
        self._allocator.running = frozenset(running)
        self._devices.restore()
        await self._registrar.start()

    async def stop(self) -> None:
        await self._registrar.stop()

    def all_pods_known(self) -> None:
        """From now on devices of Pods that are not active are given back."""
        self._devices.sources_ready = True

    async def admit(self, pod: Pod) -> None:
        """Allocates for all its containers; an AllocationError refuses it."""
        for each in claimants(pod):
            await self._allocator.allocate(each)

    async def given(self, pod: Pod, container: Json) -> Given:
        wanted = claimant(pod, container)
        unrecorded = False
        for resource, count in wanted.limits.items():
            if self._devices.concerns(resource) and count:
                await self._tell_of_start(wanted, resource)
                recorded = self._devices.grants.ids(pod.uid, wanted.name, resource) is not None
                unrecorded |= pod.uid in self._active() and not recorded
        if unrecorded:
            await self._allocator.allocate(next(each for each in claimants(pod) if each.name == wanted.name))
        grants = self._devices.grants.of(pod.uid, wanted.name)
        return by_plugins(grants[resource] for resource in self._shuffled(grants)) if grants else NOTHING

    def offer(self) -> Offer:
        return self._devices.offer()

    def raised(self, pod: Pod) -> dict[str, int]:
        """What the node has of each resource at least, when it judges a Pod that was given devices."""
        if not self._devices.grants.has(pod.uid):
            return {}
        return {resource: len(ids) for resource, ids in self._devices.allocated.items()}

    def health(self, pod: Pod, container: str) -> tuple[Json, ...]:
        """Of what an app container holds, for its status."""
        if container not in [each["name"] for each in pod.containers]:
            return ()
        grants = self._devices.grants.of(pod.uid, container)
        return tuple(
            {"name": resource, "resources": [self._health(resource, device) for device in sorted(grant.ids)]}
            for resource, grant in sorted(grants.items())
        )

    def give_back(self) -> None:
        self._devices.give_back()

    def held(self, pod: str, container: str) -> list[tuple[str, str, tuple[int, ...]]]:
        """Resource, id and NUMA nodes of all it holds, in any order."""
        found = [
            (resource, device, nodes)
            for resource, grant in self._devices.grants.of(pod, container).items()
            for device, nodes in _nodes(grant).items()
        ]
        self._random.shuffle(found)
        return found

    def healthy(self) -> list[tuple[str, str, tuple[int, ...]]]:
        """Resource, id and NUMA nodes of all that could be allocated."""
        return [
            (resource, device, tuple(node.ID for node in known.topology.nodes))
            for resource, devices in self._devices.known.items()
            for device, known in devices.items()
            if device in self._devices.healthy.get(resource, ())
            # As in the real kubelet, a topology without nodes hides the device here, and only here.
            and (known.topology.nodes or not known.HasField("topology"))
        ]

    async def _tell_of_start(self, wanted: Claimant, resource: str) -> None:
        plugin = self._devices.plugins.get(resource)
        if plugin is None:
            raise AllocationError(f"endpoint not found in cache for a registered resource: {resource}")
        if not plugin.options.pre_start_required:
            return
        ids = self._devices.grants.ids(wanted.pod, wanted.name, resource)
        if ids is None:
            raise AllocationError(
                f"no devices found allocated in local cache for pod {wanted.pod}, container {wanted.name}, "
                f"resource {resource}"
            )
        try:
            await plugin.pre_start(self._shuffled(ids))
        except PluginError as error:
            raise AllocationError(str(error)) from error

    def _health(self, resource: str, device: str) -> Json:
        known = self._devices.known.get(resource, {}).get(device)
        sick = known is not None and known.health != HEALTHY
        return {"resourceID": device, "health": "Unhealthy" if sick else "Healthy"}

    def _shuffled(self, names: Collection[str]) -> list[str]:
        found = sorted(names)
        self._random.shuffle(found)
        return found


def _nodes(grant: Grant) -> dict[str, tuple[int, ...]]:
    """NUMA nodes by id; -1 stands for none."""
    found: dict[str, tuple[int, ...]] = {}
    for node, ids in grant.devices.items():
        for device in ids:
            found[device] = (*found.get(device, ()), node) if node >= 0 else found.get(device, ())
    return found
