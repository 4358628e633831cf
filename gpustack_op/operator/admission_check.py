"""Keeps the AdmissionCheck that every accelerated queue lists, and says that its controller is there.

Owns      the AdmissionCheck `gpustack-node-devices` and its condition `Active`.
Never     judges a Workload here, see `admission_judge`.
Woken by  AdmissionChecks.
Promises  a deleted or edited check is put back; a settled cluster sees no write.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from gpustack_op.api.kueue import ADMISSION_CHECKS, AdmissionCheck
from gpustack_op.operator.informers import Informers
from gpustack_op.operator.single_object import SingleObjectReconciler
from gpustack_op.runtime.apply import Owned, Writer
from gpustack_op.runtime.controller import Request
from gpustack_op.scheduling import labels, names

STATUS = Owned(ignored=("status.conditions.*.lastTransitionTime",))
CONTROLLER_NAME = "worker.gpustack.ai/node-devices"


def wanted_check() -> dict[str, Any]:
    return {
        "metadata": {"name": names.NODE_DEVICES_CHECK, "labels": {labels.PART_OF: "gpustack-operator"}},
        "spec": {"controllerName": CONTROLLER_NAME},
    }


def active_condition(check: AdmissionCheck, now: datetime) -> dict[str, Any]:
    return {
        "type": "Active",
        "status": "True",
        "reason": "Active",
        "message": "the per-card check is running",
        "observedGeneration": check.metadata.generation,
        "lastTransitionTime": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


class AdmissionCheckReconciler(SingleObjectReconciler[AdmissionCheck]):
    name = "admission-check"
    ONLY = Request(names.NODE_DEVICES_CHECK)

    def __init__(self, informers: Informers, writer: Writer) -> None:
        super().__init__(informers.checks, writer, wanted_check())

    async def keep(self) -> AdmissionCheck | None:
        check = await super().keep()
        if check is not None:
            status = {"conditions": [active_condition(check, datetime.now(UTC))]}
            await self.writer.converge_status(ADMISSION_CHECKS, status, check, owned=STATUS)
        return check
