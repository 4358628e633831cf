"""In which phase an InstanceType is, and the one sentence that says why."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from gpustack_op.api.kueue import ClusterQueue


class Phase(StrEnum):
    ACTIVE = "Active"
    INACTIVE = "Inactive"
    ACTIVATING = "Activating"
    DRAINING = "Draining"


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything the phase depends on. `pool` names what the type asks of a node, for the sentence."""

    name: str
    pool: str
    deleting: bool = False
    inactive: bool = False
    kueue_missing: bool = False
    queue: ClusterQueue | None = None
    foreign_queue: bool = False
    backed: bool = True
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PhaseReport:
    """`hearsay` marks what only Kueue says: one that starts complains of everything that it has not read yet."""

    phase: Phase
    message: str = ""
    hearsay: bool = field(default=False, compare=False)


def phase_of(situation: Situation) -> PhaseReport:
    """The first rule that applies wins: deletion, no Kueue, a foreign queue, a person's wish, then Kueue's word."""
    if situation.deleting:
        return PhaseReport(Phase.DRAINING, _drain_sentence(situation))
    if situation.kueue_missing:
        return PhaseReport(Phase.ACTIVATING, "Kueue is not installed: its kind ClusterQueue is not served yet")
    if situation.foreign_queue:
        return PhaseReport(Phase.ACTIVATING, _foreign_sentence(situation))
    if situation.inactive:
        return PhaseReport(Phase.INACTIVE, "spec.inactive is true: admitted workloads run on, nothing new is admitted")
    if situation.queue is None or situation.queue.deleting:
        return PhaseReport(Phase.ACTIVATING, f'ClusterQueue "{situation.name}" is being created')
    return _by_kueue(situation, situation.queue)


def _by_kueue(situation: Situation, queue: ClusterQueue) -> PhaseReport:
    if not situation.backed:
        return PhaseReport(Phase.ACTIVE, f"no managed node offers {situation.pool}; nothing is admitted until one does")
    complaint = kueue_complaint(queue)
    if complaint is not None:
        return PhaseReport(Phase.ACTIVATING, complaint, hearsay=True)
    return PhaseReport(Phase.ACTIVE, _left_out_sentence(situation.left_out))


def kueue_complaint(queue: ClusterQueue) -> str | None:
    """Kueue's own words when it holds the queue for a reason that is not our stop policy; None when it admits.

    A verdict on an older generation than the queue's is no complaint: Kueue has yet to look.
    """
    active = next((c for c in queue.status.conditions or () if c.type == "Active"), None)
    if active is None:
        return "Kueue has not reported on the ClusterQueue yet"
    if active.status == "True" or active.reason == "Stopped":
        return None
    if active.observed_generation and active.observed_generation < queue.metadata.generation:
        return None
    return active.message or f"Kueue reports the ClusterQueue inactive: {active.reason}"


def _drain_sentence(situation: Situation) -> str:
    queue = situation.queue
    if queue is None or situation.foreign_queue:
        return "the InstanceType is about to be removed"
    left = max(queue.status.reserving_workloads, queue.status.admitted_workloads)
    if left:
        return f'{left} workloads of ClusterQueue "{situation.name}" are still being evicted'
    return f'ClusterQueue "{situation.name}" is being removed'


def _foreign_sentence(situation: Situation) -> str:
    return (
        f'ClusterQueue "{situation.name}" was not made by this operator and is left alone; '
        "delete it, or create the InstanceType under another name"
    )


def _left_out_sentence(left_out: tuple[str, ...]) -> str:
    if not left_out:
        return ""
    return (
        f"{len(left_out)} of the pool's flavors are left out, since a ClusterQueue holds at most 64: "
        f"{', '.join(left_out[:3])}{' …' if len(left_out) > 3 else ''}; "
        "split the pool by another InstanceType"
    )
