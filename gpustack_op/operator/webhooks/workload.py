"""The Workload webhook: pins a Workload to the nodes of which one card has the room that it asks of one card.

Guarantees   It never refuses, and never waits: what cannot be found out in the caches stays unpinned. A Workload that
             held quota before an update stays as it is.
Assumptions  The API server sends only Workloads whose queue is an entrance, and goes on without us while we are away.
Recovery     The reconciler of `workload_fit` pins what came meanwhile.
"""

from __future__ import annotations

from typing import Any

from gpustack_op.operator.workload_fit import FitPin
from gpustack_op.runtime.webhook.review import AdmissionRequest
from gpustack_op.scheduling.fit_pin import fit_pinned

Json = dict[str, Any]


class WorkloadWebhook:
    def __init__(self, fit: FitPin) -> None:
        self.fit = fit

    async def default(self, request: AdmissionRequest) -> Json:
        new = request.object or {}
        spec = new.get("spec") or {}
        if _holds_quota(request.old_object or {}):
            return new
        key = self.fit.key(spec.get("queueName") or "", request.namespace)
        return {**new, "spec": {**spec, "podSets": fit_pinned(spec["podSets"], key)}} if spec.get("podSets") else new


def _holds_quota(workload: Json) -> bool:
    conditions = (workload.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "QuotaReserved" and each.get("status") == "True" for each in conditions)
