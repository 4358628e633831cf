"""Under which user names the operator itself writes."""

from __future__ import annotations

from typing import Protocol

import msgspec

from gpustack_op.runtime.webhook.review import User

SERVICE_ACCOUNT = "gpustack-operator"
_REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
_REVIEW_PATH = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class Connection(Protocol):
    """The part of a client that this needs."""

    async def raw(self, method: str, path: str, *, body: bytes | None = None) -> bytes: ...


class OwnIdentity:
    """Recognises the operator.

    Guarantees   Its ServiceAccount is known without asking. Any other name is compared with what the API server says we
                 are, so that a process outside the cluster is recognised under whatever credentials it was given.
    Recovery     While the API server does not answer, the caller gets the client's own exception.
    """

    def __init__(self, client: Connection, namespace: str) -> None:
        self._client = client
        self._service_account = f"system:serviceaccount:{namespace}:{SERVICE_ACCOUNT}"
        self._asked: str | None = None

    async def is_own(self, user: User) -> bool:
        return user.name == self._service_account or user.name == await self._own_name()

    async def _own_name(self) -> str:
        if self._asked is None:
            answer = await self._client.raw("POST", _REVIEW_PATH, body=msgspec.json.encode(_REVIEW))
            self._asked = msgspec.json.decode(answer, type=_Review).status.user_info.username
        return self._asked


class _Names(msgspec.Struct, frozen=True):
    username: str = ""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    user_info: _Names = _Names()


class _Review(msgspec.Struct, frozen=True):
    status: _Status = _Status()
