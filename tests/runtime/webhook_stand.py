"""A webhook server on a real TLS port, reviews to send to it, and an API server small enough to be a dictionary."""

from __future__ import annotations

import base64
import io
import itertools
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import aiohttp
import msgspec

from gpustack_op.api.meta import KubeObject, PartialObject, Resource
from gpustack_op.runtime.errors import AlreadyExists, ApiError, Conflict, NotFound
from gpustack_op.runtime.metrics import Metrics
from gpustack_op.runtime.webhook.key_material import load
from gpustack_op.runtime.webhook.keyring import Keyring, renewed
from gpustack_op.runtime.webhook.server import Bind, WebhookServer, server_tls

T = TypeVar("T", bound=KubeObject)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
WIDGETS = Resource("example.com", "v1", "widgets", "Widget", PartialObject)
JSON_HEADERS = {"Content-Type": "application/json"}


def review(new: Mapping[str, Any] | None, *, old: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A CREATE, or an UPDATE when there is an old object, of a Widget."""
    request = {
        "uid": "review-1",
        "kind": {"group": "example.com", "version": "v1", "kind": "Widget"},
        "resource": {"group": "example.com", "version": "v1", "resource": "widgets"},
        "operation": "UPDATE" if old else "CREATE",
        "userInfo": {"username": "jane", "groups": ["system:authenticated"]},
        "object": new,
        "oldObject": old,
        "dryRun": False,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request | more}


def patch_of(answer: Mapping[str, Any]) -> Any:
    return msgspec.json.decode(base64.b64decode(answer["response"]["patch"]))


@dataclass
class Stand:
    """A started server and a session that trusts it."""

    server: WebhookServer
    session: aiohttp.ClientSession
    metrics: Metrics

    def url(self, path: str) -> str:
        return f"https://localhost:{self.server.port}{path}"

    async def ask(self, path: str, body: Mapping[str, Any]) -> Any:
        """The decoded answer to a review."""
        status, answer = await self.post(path, io.BytesIO(msgspec.json.encode(body)))
        assert status == 200, answer
        return msgspec.json.decode(answer)

    async def post(self, path: str, data: Any, *, headers: Mapping[str, str] = JSON_HEADERS) -> tuple[int, bytes]:
        async with self.session.post(self.url(path), data=data, headers=headers) as response:
            return response.status, await response.read()


@asynccontextmanager
async def standing(server: WebhookServer, keyring: Keyring, metrics: Metrics) -> AsyncIterator[Stand]:
    load(server.tls, keyring.serving)
    await server.start()
    connector = aiohttp.TCPConnector(ssl=trusting(keyring.bundle), force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        yield Stand(server, session, metrics)
    await server.stop()


def new_server() -> tuple[WebhookServer, Metrics]:
    metrics = Metrics()
    return WebhookServer(Bind("127.0.0.1", 0), server_tls(), metrics), metrics


def local_keyring() -> Keyring:
    """Good for localhost, now by the real clock: the TLS library knows no other."""
    return renewed({}, ["localhost"], datetime.now(UTC))


def trusting(bundle: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=bundle.decode())
    return context


@dataclass
class Clock:
    """A wall clock that stands still until it is moved."""

    now: datetime = NOW

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **passed: float) -> None:
        self.now += timedelta(**passed)


@dataclass
class MemoryApi:
    """Stores objects as JSON under kind and name; counts writes; refuses what its `failures` say, once each."""

    objects: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    writes: list[str] = field(default_factory=list)
    failures: list[ApiError] = field(default_factory=list)
    versions: Any = field(default_factory=lambda: itertools.count(1))

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        if self.failures:
            raise self.failures.pop(0)
        return msgspec.convert(self._stored(resource, name), resource.model)

    async def create(self, resource: Resource[T], body: Mapping[str, Any], *, namespace: str = "") -> T:
        if (resource.kind, body["metadata"]["name"]) in self.objects:
            raise AlreadyExists(409, "AlreadyExists", "already exists")
        return self.put(resource, body, verb="create")

    async def merge_patch(
        self, resource: Resource[T], name: str, patch: Mapping[str, Any], *, namespace: str = ""
    ) -> T:
        stored = self._stored(resource, name)
        if patch["metadata"]["resourceVersion"] != stored["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "the object has been modified")
        return self.put(resource, merged(stored, patch), verb="patch")

    async def json_patch(self, resource: Resource[T], name: str, patch: Sequence[Mapping[str, Any]]) -> T:
        stored = self._stored(resource, name)
        for operation in patch:
            stored = patched(stored, operation)
        return self.put(resource, stored, verb="patch")

    async def apply(self, resource: Resource[T], body: Mapping[str, Any], *, field_manager: str) -> T:
        return self.put(resource, body, verb="apply")

    def put(self, resource: Resource[T], body: Mapping[str, Any], *, verb: str = "put") -> T:
        stored = msgspec.json.decode(msgspec.json.encode(body))
        stored["metadata"]["resourceVersion"] = str(next(self.versions))
        name = stored["metadata"]["name"]
        self.objects[resource.kind, name] = stored
        self.writes.append(f"{verb} {resource.kind} {name}")
        return msgspec.convert(stored, resource.model)

    def _stored(self, resource: Resource[T], name: str) -> dict[str, Any]:
        if (resource.kind, name) not in self.objects:
            raise NotFound(404, "NotFound", f'{resource.plural} "{name}" not found', details={"name": name})
        return self.objects[resource.kind, name]


def merged(before: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """An RFC 7386 merge."""
    result = dict(before)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key) or {}, value) if isinstance(value, Mapping) else value
    return result


def patched(document: Any, operation: Mapping[str, Any]) -> Any:
    """One RFC 6902 operation, done on a copy."""
    result = msgspec.json.decode(msgspec.json.encode(document))
    *parents, last = [s.replace("~1", "/").replace("~0", "~") for s in operation["path"].split("/")[1:]]
    target = result
    for step in parents:
        target = target[int(step)] if isinstance(target, list) else target[step]
    if operation["op"] == "test":
        assert target[last] == operation["value"]
    elif operation["op"] == "remove":
        del target[last]
    else:
        target[last] = operation["value"]
    return result
