"""Partitions that living Pods hold and that are not there: made again after a reboot, else reported.

Guarantees   A partition is made again only in its own place, and only if the machine has rebooted since it was made;
             one that vanished while the machine ran was taken away by somebody, who had a reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpustack_op.agent.partitions.driver import Instance
from gpustack_op.agent.partitions.markers import Marker
from gpustack_op.agent.partitions.world import Held
from gpustack_op.scheduling.placements import overlap


@dataclass(frozen=True, slots=True)
class Lost:
    """What a Pod's record names and the Pod no longer has. `why` is the end of a sentence."""

    held: Held
    why: str


@dataclass(frozen=True, slots=True)
class Repairs:
    again: tuple[Held, ...] = ()
    lost: tuple[Lost, ...] = ()


def repairs(held: Sequence[Held], instances: Sequence[Instance], markers: Sequence[Marker], boot_id: str) -> Repairs:
    """For one card."""
    boots = {(marker.owner, marker.uuid): marker.boot_id for marker in markers}
    again, lost = [], []
    for one in held:
        there = next((instance for instance in instances if instance.place == one.place), None)
        if one.finished or (there is not None and there.uuid == one.uuid):
            continue
        if there is not None:
            lost.append(Lost(one, f"its place has partition {there.uuid or 'nobody can compute on'} now"))
        elif any(overlap(instance.place, one.place) for instance in instances):
            lost.append(Lost(one, "its place is taken by other partitions"))
        elif boot_id and boots.get((one.owner, one.uuid), "") != boot_id:
            again.append(one)
        else:
            lost.append(Lost(one, "it was taken down while the machine ran"))
    return Repairs(tuple(again), tuple(lost))
