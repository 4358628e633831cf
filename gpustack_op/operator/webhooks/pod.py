"""The Pod webhooks: fold what a Pod behind one of our queues requests, and refuse what it may not request.

Guarantees   A Pod that enters no pool of ours comes back as it was. Both webhooks judge by the pool as it is now.
Assumptions  The API server sends only what carries a queue label, outside the closed namespaces.
Recovery     None needed: whoever makes the Pod asks again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpustack_op.operator.webhooks.fronting import Fronting
from gpustack_op.runtime.webhook.field_errors import forbidden, invalid, judged, required
from gpustack_op.runtime.webhook.review import ALLOWED, AdmissionRequest, Cause, RefusalError, Verdict
from gpustack_op.scheduling import labels
from gpustack_op.scheduling.breaches import Breach, Fault
from gpustack_op.scheduling.environment_rules import closed, environment_breaches
from gpustack_op.scheduling.pool_facts import PoolFacts
from gpustack_op.scheduling.request_folds import FoldError, folded
from gpustack_op.scheduling.request_rules import request_breaches

Json = dict[str, Any]


class PodWebhook:
    template: tuple[str, ...] = ()
    """Steps from the object to what has a Pod's metadata and spec."""

    def __init__(self, fronting: Fronting) -> None:
        self.fronting = fronting

    async def default(self, request: AdmissionRequest) -> Json:
        new = request.object or {}
        pool = await self._pool(request)
        return new if pool is None else _admitted(new, self.template, pool)

    async def validate(self, request: AdmissionRequest) -> Verdict:
        pool = await self._pool(request)
        if pool is None:
            return ALLOWED
        at = "".join(f"{step}." for step in self.template)
        pod = _within(request.object or {}, self.template)
        spec = pod.get("spec") or {}
        breaches = request_breaches(spec, pool, path=f"{at}spec")
        breaches += environment_breaches(pod.get("metadata") or {}, spec, at=at)
        return judged(request.kind, _name(request), [cause(breach) for breach in breaches])

    async def _pool(self, request: AdmissionRequest) -> PoolFacts | None:
        queue = (_metadata(request).get("labels") or {}).get(labels.KUEUE_QUEUE_NAME)
        return await self.fronting.pool(queue, request.namespace) if queue else None


def cause(breach: Breach) -> Cause:
    """The breach in Kubernetes' words."""
    if breach.fault is Fault.REQUIRED:
        return required(breach.field, breach.detail)
    if breach.fault is Fault.FORBIDDEN:
        return forbidden(breach.field, breach.detail)
    return invalid(breach.field, breach.value, breach.detail)


def _admitted(new: Json, template: tuple[str, ...], pool: PoolFacts) -> Json:
    """The object with the Pod's spec folded; a Pod that cannot be folded is refused."""
    if template:
        first, *rest = template
        return {**new, first: _admitted(new.get(first) or {}, tuple(rest), pool)}
    try:
        return {**new, "spec": closed(folded(new.get("spec") or {}, pool))}
    except FoldError as error:
        raise RefusalError(Verdict(allowed=False, message=str(error))) from error


def _within(new: Json, template: tuple[str, ...]) -> Mapping[str, Any]:
    for step in template:
        new = new.get(step) or {}
    return new


def _metadata(request: AdmissionRequest) -> Mapping[str, Any]:
    return (request.object or {}).get("metadata") or {}


def _name(request: AdmissionRequest) -> str:
    """One that the API server makes up has not been made up yet."""
    metadata = _metadata(request)
    return request.name or metadata.get("name") or metadata.get("generateName") or ""
