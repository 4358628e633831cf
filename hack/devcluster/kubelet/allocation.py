"""Which ids a container gets, and what its plugins make of them.

Guarantees   As the real device manager under the topology policy `none`: what is asked for is found among the ids of
             earlier init containers, then as the plugin prefers, then arbitrarily. The order is arbitrary wherever the
             real one's is, and follows the seed. One `Allocate` a resource; what an earlier one of the container has
             granted stays granted when a later one fails.
Assumptions  Pods are admitted one at a time. A container that restarts may be allocated beside them.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from devcluster.kubelet import checkpoint
from devcluster.kubelet.devices import AllocationError, Devices
from devcluster.kubelet.grants import Grant, Ids
from devcluster.kubelet.plugin import PluginError

T = TypeVar("T", str, tuple[str, int])

NOTHING: Final[Ids] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """A container with its limits, in whole numbers. `init` are plain init containers, whose ids are used again."""

    pod: str
    name: str
    limits: Mapping[str, int]
    init: bool = False


@dataclass(slots=True)
class _Choice:
    """Ids that are taken for one container and resource while it is decided which."""

    pool: set[str]
    """The resource's allocated ids, which grow at once."""

    missing: int
    taken: set[str] = field(default_factory=set)


class Allocator:
    def __init__(self, devices: Devices, *, randomness: random.Random) -> None:
        self.running: frozenset[tuple[str, str]] = frozenset()
        """The containers, by Pod and name, that ran when the kubelet started."""
        self._devices = devices
        self._random = randomness
        self._reusable_of = ""
        self._reusable: dict[str, set[str]] = {}

    async def allocate(self, claimant: Claimant) -> None:
        """An AllocationError says why not; then nothing of the failing resource stays reserved."""
        if self._reusable_of != claimant.pod:
            self._reusable_of, self._reusable = claimant.pod, {}
        await self._allocate_all(claimant)
        for resource, grant in self._devices.grants.of(claimant.pod, claimant.name).items():
            reusable = self._reusable.setdefault(resource, set())
            if claimant.init:
                reusable |= grant.ids
            else:
                reusable -= grant.ids

    async def _allocate_all(self, claimant: Claimant) -> None:
        wanted = [(resource, count) for resource, count in claimant.limits.items() if self._devices.concerns(resource)]
        if not wanted:
            return
        self._devices.give_back()
        granted = False
        for resource, count in self.shuffled(wanted):
            ids = await self._chosen(claimant, resource, count)
            if ids:
                granted = True
                await self._grant(claimant, resource, ids)
        if granted:
            self._devices.write_checkpoint()

    async def _grant(self, claimant: Claimant, resource: str, ids: Ids) -> None:
        devices = self._devices
        try:
            plugin = devices.plugins.get(resource)
            if plugin is None:
                raise PluginError(f"unknown Device Plugin {resource}")
            answer = await plugin.allocate(self.shuffled(ids))
        except PluginError as error:
            devices.recount()
            raise AllocationError(str(error)) from error
        if not answer.container_responses:
            raise AllocationError(f"no containers return in allocation response {answer}".rstrip())
        placed = checkpoint.by_node(self.shuffled(ids), devices.nodes(resource))
        devices.grants.record(claimant.pod, claimant.name, resource, Grant(placed, answer.container_responses[0]))

    async def _chosen(self, claimant: Claimant, resource: str, count: int) -> Ids:
        """Empty when nothing is to be done."""
        devices = self._devices
        held = devices.grants.ids(claimant.pod, claimant.name, resource)
        if held is not None and len(held) != count:
            raise AllocationError(
                f'pod "{claimant.pod}" container "{claimant.name}" changed request for resource "{resource}" '
                f"from {len(held)} to {count}"
            )
        if not devices.sources_ready and (claimant.pod, claimant.name) in self.running:
            return NOTHING
        _check_health(resource, devices.healthy.get(resource), held or NOTHING)
        if held is not None or count == 0:
            return NOTHING
        choice = _Choice(devices.allocated.setdefault(resource, set()), count)
        if self._take(choice, resource, self._reusable.get(resource, NOTHING)):
            return frozenset(choice.taken)
        return await self._chosen_of_free(choice, resource, count)

    async def _chosen_of_free(self, choice: _Choice, resource: str, count: int) -> Ids:
        free = frozenset(self._devices.healthy[resource] - choice.pool)
        if len(free) < choice.missing:
            raise AllocationError(
                f"requested number of devices unavailable for {resource}. "
                f"Requested: {choice.missing}, Available: {len(free)}"
            )
        preferred = await self._preferred(choice, resource, free, count)
        if self._take(choice, resource, preferred & free) or self._take(choice, resource, free):
            return frozenset(choice.taken)
        raise AllocationError(
            f"unexpectedly allocated less resources than required. Requested: {count}, Got: {count - choice.missing}"
        )

    async def _preferred(self, choice: _Choice, resource: str, free: Ids, count: int) -> Ids:
        plugin = self._devices.plugins.get(resource)
        if plugin is None:
            raise AllocationError(f"endpoint not found in cache for a registered resource: {resource}")
        if not plugin.options.get_preferred_allocation_available:
            return NOTHING
        try:
            return await plugin.preferred(self.shuffled(free | choice.taken), self.shuffled(choice.taken), count)
        except PluginError as error:
            raise AllocationError(str(error)) from error

    def _take(self, choice: _Choice, resource: str, ids: Collection[str]) -> bool:
        """Takes as many as are missing; whether none is missing any more."""
        choice.pool = self._devices.allocated.setdefault(resource, set())
        for device in self.shuffled(set(ids) - choice.taken):
            choice.pool.add(device)
            choice.taken.add(device)
            choice.missing -= 1
            if choice.missing == 0:
                return True
        return False

    def shuffled(self, values: Iterable[T]) -> list[T]:
        found = sorted(values)
        self._random.shuffle(found)
        return found


def _check_health(resource: str, healthy: Collection[str] | None, held: Ids) -> None:
    if healthy is None:
        raise AllocationError(f"cannot allocate unregistered device {resource}")
    if not healthy:
        raise AllocationError(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
    if not held <= set(healthy):
        raise AllocationError(
            f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {resource}"
        )
