"""The InstanceType webhooks: fill in what was left out, refuse what cannot be, hint at what may be a slip.

Guarantees   A new type is judged with the cluster's hardware known, or asked to come again. An update never waits.
Assumptions  The API server keeps objects that are being deleted away from us, so that they can always go.
Recovery     What is not known at creation is filled in by the instance-type reconciler once it is.
"""

from __future__ import annotations

import asyncio
from typing import Any

from gpustack_op.operator.informers import Informers
from gpustack_op.operator.webhooks.instance_type_defaults import Hardware, defaulted, readable
from gpustack_op.operator.webhooks.instance_type_hints import System, creation_hints, preset_hints
from gpustack_op.operator.webhooks.instance_type_rules import change_causes, creation_causes, untyped_causes
from gpustack_op.runtime.informer import Informer
from gpustack_op.runtime.webhook.field_errors import judged
from gpustack_op.runtime.webhook.review import AdmissionRequest, Defaulted, RefusalError, Verdict, unavailable
from gpustack_op.scheduling import labels

SYNC_SECONDS = 5.0
"""How long a new type waits for the caches after a start: half of the time the API server gives us."""


class InstanceTypeWebhook:
    def __init__(self, informers: Informers) -> None:
        self.informers = informers

    async def default(self, request: AdmissionRequest) -> Defaulted:
        new = request.object or {}
        causes = untyped_causes(new.get("spec") or {})
        if causes:
            raise RefusalError(judged(request.kind, _name(request), causes))
        result = defaulted(new, request.old_object, await self._hardware(request))
        return Defaulted(result.object, preset_hints(result.filled))

    async def validate(self, request: AdmissionRequest) -> Verdict:
        new = (request.object or {}).get("spec") or {}
        if request.old_object is not None:
            return judged(request.kind, request.name, change_causes(request.old_object.get("spec") or {}, new))
        return judged(request.kind, _name(request), creation_causes(new), warnings=self._hints(_name(request), new))

    async def _hardware(self, request: AdmissionRequest) -> Hardware:
        flavors, devices = self.informers.flavors, self.informers.devices
        if request.old_object is None:
            waiting = await unsynced_after(SYNC_SECONDS, flavors, devices)
            if waiting:
                message = f"{request.subject} cannot be judged yet: still reading {', '.join(waiting)}; try again"
                raise RefusalError(unavailable(message))
        elif not (flavors.synced and devices.synced):
            return Hardware()
        return Hardware(tuple(flavors.all()), tuple(devices.all()))

    def _hints(self, name: str, spec: dict[str, Any]) -> tuple[str, ...]:
        """None from a cache that has not synced: it would call everything unknown."""
        read = readable(spec)
        if read is None or not self.informers.flavors.synced:
            return ()
        systems = self._systems() if self.informers.nodes.synced else []
        return creation_hints(name, read, self.informers.flavors.all(), systems)

    def _systems(self) -> list[System]:
        return [
            (node.labels.get(labels.OS, ""), node.labels.get(labels.ARCH, "")) for node in self.informers.nodes.all()
        ]


async def unsynced_after(seconds: float, *informers: Informer[Any]) -> list[str]:
    """The informers that have not synced by then; a kind that the API server does not serve has nothing to tell."""
    waits = [informer.wait_synced() for informer in informers if not (informer.synced or informer.missing)]
    try:
        async with asyncio.timeout(seconds):
            await asyncio.gather(*waits)
    except TimeoutError:
        return [str(informer) for informer in informers if not (informer.synced or informer.missing)]
    return []


def _name(request: AdmissionRequest) -> str:
    """Empty while an object made from `generateName` has none."""
    return request.name or ((request.object or {}).get("metadata") or {}).get("name") or ""
