"""Puts manifests into the cluster, whatever their kinds.

Guarantees   Objects are applied by the server (fields of others stay), so installing twice is installing once. When
             `install_crds` returns, the new kinds are served.
Assumptions  Kinds of all but the CRDs are served already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from gpustack_op.api.meta import PartialObject, Resource
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.errors import NotFound

FIELD_MANAGER: Final = "devcluster"
SERVED_TIMEOUT: Final = 60.0
"""Seconds for a new kind to be served; a fraction of one is usual."""

SERVED_POLL: Final = 0.15
"""Seconds between two questions; more often would slow down what is waited for."""

Json = dict[str, Any]


class Installer:
    """Knows from the API server's own discovery where each kind is served."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._discovered: dict[str, dict[str, Resource[PartialObject]]] = {}

    async def install(self, objects: Iterable[Json]) -> None:
        """In no particular order."""
        await asyncio.gather(*(self._apply(each) for each in objects))

    async def install_crds(self, crds: Iterable[Json]) -> None:
        await asyncio.gather(*(self._install_crd(crd) for crd in crds))

    async def namespaces(self, *names: str) -> None:
        await self.install({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names)

    async def _install_crd(self, crd: Json) -> None:
        await self._apply(crd)
        async with asyncio.timeout(SERVED_TIMEOUT):
            await asyncio.gather(*(self._until_served(path) for path in collections(crd)))

    async def _until_served(self, path: str) -> None:
        while True:
            with suppress(NotFound):
                await self._client.raw("GET", path, params={"limit": "1"})
                return
            await asyncio.sleep(SERVED_POLL)

    async def _apply(self, obj: Json) -> None:
        resource = await self._resource(obj["apiVersion"], obj["kind"])
        await self._client.apply(resource, obj, field_manager=FIELD_MANAGER)

    async def _resource(self, api_version: str, kind: str) -> Resource[PartialObject]:
        if api_version not in self._discovered:
            path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
            self._discovered[api_version] = _resources(api_version, await self._client.raw("GET", path))
        return self._discovered[api_version][kind]


def collections(crd: Json) -> Iterator[str]:
    """Where the kind's objects are listed, one path for each version."""
    spec = crd["spec"]
    for version in spec["versions"]:
        yield f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"


def read_manifests(folder: Path) -> list[Json]:
    """All objects of all YAML files there; none when there is no such folder."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    files = sorted(folder.glob("*.yaml"))
    return [obj for file in files for obj in yaml.load_all(file.read_text(encoding="utf-8"), Loader=loader) if obj]


def _resources(api_version: str, discovery: bytes) -> dict[str, Resource[PartialObject]]:
    group, _, version = api_version.rpartition("/")
    served = msgspec.json.decode(discovery)["resources"]
    return {
        each["kind"]: Resource(
            group, version, each["name"], each["kind"], PartialObject, namespaced=bool(each["namespaced"])
        )
        for each in served
        if "/" not in each["name"]
    }
