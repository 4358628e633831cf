"""The InstanceTypeFlavor webhook: the catalog is the operator's to write, everybody's to read."""

from __future__ import annotations

from gpustack_op.operator.webhooks.identity import OwnIdentity
from gpustack_op.runtime.webhook.review import ALLOWED, AdmissionRequest, Verdict

GARBAGE_COLLECTOR = "system:serviceaccount:kube-system:generic-garbage-collector"


class InstanceTypeFlavorWebhook:
    def __init__(self, identity: OwnIdentity) -> None:
        self.identity = identity

    async def validate(self, request: AdmissionRequest) -> Verdict:
        if request.user.name == GARBAGE_COLLECTOR or await self.identity.is_own(request.user):
            return ALLOWED
        return Verdict(
            allowed=False,
            message=f"{request.subject} is written by the operator from what the nodes offer: there is nothing to edit "
            "here; to offer a pool of your own, create an InstanceType that names a row's groups",
        )
