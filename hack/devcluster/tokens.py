"""A service account's token in a file, as the kubelet keeps one in a Pod.

Guarantees   The file always holds a whole token. A new one is there when a fifth of the old one's life is left.
Recovery     When the API server is away the request is repeated until it answers; the file keeps what it has.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from devcluster.certificates import write_private
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.errors import NETWORK_ERRORS, ApiError

LIFETIME: Final = 3600
"""Seconds, as the kubelet asks for."""

RETRY: Final = 5.0
"""Seconds until a failed request is repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """`bound_to` names the object that the token tells of and ends with: an agent's node."""

    account: str
    namespace: str
    file: Path
    bound_to: dict[str, str] | None = None

    async def fetch(self, client: Client) -> float:
        """Writes a new token; gives the seconds until the next should be fetched."""
        spec: dict[str, Any] = {"expirationSeconds": LIFETIME}
        if self.bound_to is not None:
            spec["boundObjectRef"] = self.bound_to
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{self.account}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        answer = msgspec.json.decode(await client.raw("POST", path, body=msgspec.json.encode(body)))["status"]
        self._write(answer["token"])
        ends = datetime.datetime.fromisoformat(answer["expirationTimestamp"])
        return (ends - datetime.datetime.now(datetime.UTC)).total_seconds() * 0.8

    async def keep(self, client: Client, say: Callable[[str], None], delay: float) -> None:
        """For ever; `delay` is what the first `fetch` gave."""
        while True:
            await asyncio.sleep(delay)
            try:
                delay = await self.fetch(client)
            except (ApiError, *NETWORK_ERRORS) as error:
                say(f"no new token for {self.account}: {error}")
                delay = RETRY

    def _write(self, token: str) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.file.with_suffix(".unfinished")
        write_private(unfinished, token.encode())
        unfinished.rename(self.file)
