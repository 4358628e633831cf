"""Where a kubelet's Pods come from, and what else it reads from the API server."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping

import msgspec

from devcluster.kubelet.environment import Lookup
from devcluster.kubelet.pods import PODS, Pod
from gpustack_op.runtime.change import Change
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.decode import codec_for
from gpustack_op.runtime.errors import NotFound
from gpustack_op.runtime.informer import Informer
from gpustack_op.runtime.reflector import Reflector
from gpustack_op.runtime.selector import Selector


class Source:
    """The Pods that are bound to a node, whole: caches elsewhere keep less of an object."""

    def __init__(self, client: Client, node: str, handler: Callable[[Change[Pod]], None]) -> None:
        selector = Selector(fields=f"spec.nodeName={node}")
        self._informer: Informer[Pod] = Informer(PODS, selector)
        self._informer.add_handler(handler)
        self._reflector = Reflector(client, PODS, selector, codec_for(Pod), self._informer)

    async def run(self) -> None:
        """Until cancelled."""
        await self._reflector.run()

    async def synced(self) -> None:
        """Once the handler has been told of all Pods that were there."""
        await self._informer.wait_synced()


def config_of(client: Client) -> Lookup:
    """Reads ConfigMaps and Secrets."""

    async def lookup(kind: str, namespace: str, name: str) -> Mapping[str, str] | None:
        try:
            body = await client.raw("GET", f"/api/v1/namespaces/{namespace}/{kind}/{name}")
        except NotFound:
            return None
        data: dict[str, str] = msgspec.json.decode(body).get("data") or {}
        if kind == "secrets":
            return {key: base64.b64decode(value).decode(errors="replace") for key, value in data.items()}
        return data

    return lookup
