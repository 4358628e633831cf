"""Who asks the API server, and what kubectl tells them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec

from gpustack_op.api.meta import PartialObject, Resource
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.config import ClientConfig
from gpustack_op.runtime.errors import ApiError

ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", PartialObject, namespaced=True)
STORED = "stored"


@asynccontextmanager
async def holding_token(
    administrator: ClientConfig, namespace: str, account: str, *, bound_to: Mapping[str, str] | None = None
) -> AsyncIterator[Client]:
    """A client with a token of this account, bound to an object if one is given."""
    spec: dict[str, Any] = {"expirationSeconds": 3600}
    if bound_to is not None:
        spec["boundObjectRef"] = dict(bound_to)
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    async with Client(administrator) as client:
        answer = msgspec.json.decode(await client.raw("POST", path, body=msgspec.json.encode(body)))
    token = f"Bearer {answer['status']['token']}"
    async with Client(replace(administrator, certificate_file=None, key_file=None, authorization=token)) as holder:
        yield holder


async def refusal(writing: Any) -> str:
    """What a person reads when a write is refused."""
    try:
        await writing
    except ApiError as refused:
        return refused.message
    return STORED
