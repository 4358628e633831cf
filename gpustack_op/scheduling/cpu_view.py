"""How many cores of a CPU pool are there and free, from what Kueue says of its queue.

Guarantees   Whole cores, rounded down. What is reserved on a flavor takes nothing from the others: a flavor whose quota
             has been withdrawn while something still runs on it counts as nothing, not as less than nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from gpustack_op.api.kueue import ClusterQueue
from gpustack_op.api.quantity import Quantity
from gpustack_op.scheduling.names import count_in
from gpustack_op.scheduling.pools import CPU
from gpustack_op.scheduling.views import View

REQUESTED_OF_A_CORE = Fraction(4, 5)
"""What a Pod requests of each core it may use, when general resources are over-committed."""


def cpu_view(queue: ClusterQueue, *, overcommit: bool) -> View:
    """`overcommit` says that Pods request less than they may use; a reservation is scaled back to whole cores."""
    quotas = _quotas(queue)
    reserved = _reserved(queue)
    scale = 1 / REQUESTED_OF_A_CORE if overcommit else Fraction(1)
    free = sum((max(Fraction(0), quota - reserved.get(name, 0) * scale) for name, quota in quotas.items()), Fraction(0))
    largest = max((count_in(name) for name, quota in quotas.items() if quota > 0), default=0)
    remaining = int(free)
    return View(min(remaining, largest), remaining, int(sum(quotas.values())))


def _quotas(queue: ClusterQueue) -> Mapping[str, Fraction]:
    return {
        flavor.name: Quantity.parse(resource.nominal_quota).value
        for group in queue.spec.resource_groups or ()
        for flavor in group.flavors
        for resource in flavor.resources
        if resource.name == CPU
    }


def _reserved(queue: ClusterQueue) -> Mapping[str, Fraction]:
    return {
        flavor.name: Quantity.parse(resource.total).value
        for flavor in queue.status.flavors_reservation or ()
        for resource in flavor.resources or ()
        if resource.name == CPU
    }
