"""An InstanceType's phase, and the sentence that explains it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpustack_op.api.kueue import ClusterQueue, ClusterQueueStatus, Condition
from gpustack_op.api.meta import ObjectMeta
from gpustack_op.operator.instance_type_phase import PhaseReport, Situation, phase_of


def queue(status: str = "True", reason: str = "Ready", message: str = "", *, seen: int = 1) -> ClusterQueue:
    active = Condition(type="Active", status=status, reason=reason, message=message, observed_generation=seen)
    return ClusterQueue(metadata=ObjectMeta(name="a10g", generation=1), status=ClusterQueueStatus(conditions=(active,)))


BACKED = Situation(name="a10g", pool="nvidia-a10g on linux/amd64", queue=queue())


@pytest.mark.parametrize(
    ("situation", "phase", "message"),
    [
        pytest.param(BACKED, "Active", "", id="a backed pool that Kueue serves is active and has nothing to say"),
        pytest.param(
            replace(BACKED, inactive=True),
            "Inactive",
            "spec.inactive is true: admitted workloads run on, nothing new is admitted",
            id="a person's wish is named",
        ),
        pytest.param(
            replace(BACKED, backed=False, queue=queue("False", "Stopped")),
            "Active",
            "no managed node offers nvidia-a10g on linux/amd64; nothing is admitted until one does",
            id="a pool without a node stays active and says what is missing",
        ),
        pytest.param(
            replace(BACKED, queue=queue("False", "FlavorNotFound", "references missing ResourceFlavor(s): ghost")),
            "Activating",
            "references missing ResourceFlavor(s): ghost",
            id="Kueue's complaint is passed on",
        ),
        pytest.param(
            replace(BACKED, queue=queue("False", "FlavorNotFound", "old news", seen=0)),
            "Activating",
            "old news",
            id="a complaint without a generation counts",
        ),
        pytest.param(
            replace(BACKED, queue=queue("False", "Stopped")),
            "Active",
            "",
            id="our own hold that is being lifted is no complaint",
        ),
        pytest.param(
            replace(BACKED, queue=None),
            "Activating",
            'ClusterQueue "a10g" is being created',
            id="a new type waits for its queue",
        ),
        pytest.param(
            replace(BACKED, foreign_queue=True),
            "Activating",
            'ClusterQueue "a10g" was not made by this operator and is left alone; '
            "delete it, or create the InstanceType under another name",
            id="a foreign queue of the name is not adopted",
        ),
        pytest.param(
            replace(BACKED, kueue_missing=True, queue=None),
            "Activating",
            "Kueue is not installed: its kind ClusterQueue is not served yet",
            id="Kueue's absence is named",
        ),
        pytest.param(
            replace(BACKED, deleting=True, queue=ClusterQueue(status=ClusterQueueStatus(admitted_workloads=2))),
            "Draining",
            '2 workloads of ClusterQueue "a10g" are still being evicted',
            id="a deleted type counts what is left",
        ),
        pytest.param(
            replace(BACKED, left_out=("f1", "f2")),
            "Active",
            "2 of the pool's flavors are left out, since a ClusterQueue holds at most 64: f1, f2; "
            "split the pool by another InstanceType",
            id="flavors past Kueue's limit are named",
        ),
    ],
)
def test_phase(situation: Situation, phase: str, message: str) -> None:
    assert phase_of(situation) == PhaseReport(phase, message)  # type: ignore[arg-type]


def test_a_verdict_on_an_older_generation_is_no_complaint() -> None:
    stale = queue("False", "FlavorNotFound", "old news", seen=1)
    newer = ClusterQueue(metadata=ObjectMeta(name="a10g", generation=2), status=stale.status)
    assert phase_of(replace(BACKED, queue=newer)) == phase_of(BACKED)
