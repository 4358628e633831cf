"""The five views of one pool as an InstanceType's status spells them.

Promises  A pool of cards shows no cores and a pool of cores shows no cards; a pool whose queue drains shows zeros.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gpustack_op.api.kueue import ClusterQueue
from gpustack_op.api.quantity import Quantity
from gpustack_op.api.worker import Devices
from gpustack_op.scheduling.cpu_view import cpu_view
from gpustack_op.scheduling.partition_view import NO_PARTITIONS, Counts, PartitionView, partition_view
from gpustack_op.scheduling.views import NOTHING, View, accounts, exclusive_view, shared_view, sliced_view

DRAINING = "HoldAndDrain"


@dataclass(frozen=True, slots=True)
class PoolViews:
    exclusive: View = NOTHING
    shared: View = NOTHING
    sliced: View = NOTHING
    partitioned: PartitionView = NO_PARTITIONS
    cpu: View = NOTHING

    def as_json(self) -> dict[str, Any]:
        """The fields of an InstanceType's status."""
        ledgers = {
            "allocatedProfiles": _profiles(self.partitioned.allocated),
            "remainingProfiles": _profiles(self.partitioned.remaining),
        }
        return {
            "accelerator": _view(self.exclusive),
            "acceleratorShared": _view(self.shared),
            "acceleratorSliced": _view(self.sliced),
            "acceleratorPartitioned": _view(self.partitioned.view) | {k: v for k, v in ledgers.items() if v},
            "cpu": _view(self.cpu),
        }


def pool_views(
    *, accelerator_group: str, queue: ClusterQueue | None, devices: Iterable[Devices], overcommit: bool
) -> PoolViews:
    """`accelerator_group` is empty for a CPU pool; `devices` are those the pool's labels select."""
    if queue is not None and queue.spec.stop_policy == DRAINING:
        return PoolViews()
    if not accelerator_group:
        return PoolViews(cpu=cpu_view(queue, overcommit=overcommit)) if queue else PoolViews()
    nodes = accounts(devices, accelerator_group)
    return PoolViews(
        exclusive=exclusive_view(nodes),
        shared=shared_view(nodes),
        sliced=sliced_view(nodes),
        partitioned=partition_view(nodes),
    )


def amount_text(amount: int) -> str:
    """A count as Kubernetes writes a quantity: `2k` for 2000."""
    return Quantity.of(amount).canonical()


def _view(view: View) -> dict[str, Any]:
    return {
        "onceMaxRequest": amount_text(view.once),
        "remaining": amount_text(view.remaining),
        "capacity": amount_text(view.capacity),
    }


def _profiles(counts: Counts) -> list[dict[str, Any]]:
    return [{"name": name, "count": count} for name, count in counts]
