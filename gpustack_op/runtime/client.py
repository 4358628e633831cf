"""The API server as typed calls: one session, one way of retrying, one way of failing.

Guarantees   Any group, version and kind that a `Resource` describes. Answers are decoded from bytes in one pass. A
             call ends within its budget of seconds, with all its attempts. Requests that may be repeated are, after a
             broken connection, throttling or a server's failure, no sooner than the server asked. At most
             `concurrency` requests are in the air, watches not counted. Every successful write is shown to the
             observers before its caller goes on.
Assumptions  Names are fixed, so that a create whose answer was lost can be repeated: AlreadyExists then has
             `perhaps_ours` set, and the caller looks at the owner. A create with `generateName` is never repeated.
Recovery     See `retry` for what is repeated and `credentials` for renewed tokens; everything else is the caller's,
             who gets an exception of `errors`, or a network error as it is.
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Final, TypeVar

import msgspec

from gpustack_op.api.meta import KubeObject, Resource
from gpustack_op.runtime.config import ClientConfig
from gpustack_op.runtime.decode import codec_for
from gpustack_op.runtime.errors import NETWORK_ERRORS, ApiError, Gone
from gpustack_op.runtime.lines import LineSplitter
from gpustack_op.runtime.paths import collection_path, object_path
from gpustack_op.runtime.retry import ATTEMPT, BUDGET, Attempts, Repeatable
from gpustack_op.runtime.selector import EVERYTHING, Selector
from gpustack_op.runtime.transport import Call, Observer, Transport
from gpustack_op.runtime.writes import Verb, Write, WriteObserver

T = TypeVar("T", bound=KubeObject)

PAGE: Final = 500
"""Objects in one page of a list: larger pages cost memory and are no faster."""

LIST_RESTARTS: Final = 3
"""How often a list whose continuation expired is begun anew."""

MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"


class Client:
    def __init__(
        self,
        config: ClientConfig,
        *,
        concurrency: int = 64,
        budget: float = BUDGET,
        user_agent: str = "gpustack",
        observe: Observer | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`concurrency` is far above what one server answers faster for; it bounds memory and sockets, not the rate.

        `budget` is in seconds. `observe` is called with code, method and host of every exchange.
        """
        self._transport = Transport(config, user_agent=user_agent, observe=observe)
        self._slots = asyncio.Semaphore(concurrency)
        self._budget = budget
        self._sleep = sleep
        self._observers: list[WriteObserver] = []

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()

    def on_write(self, observer: WriteObserver) -> None:
        """Caches see what we write: `observer` is called before a write is sent, what it returns with the answer."""
        self._observers.append(observer)

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        body = await self.raw("GET", object_path(resource, name, namespace))
        return codec_for(resource.model).object(body)

    async def list(
        self, resource: Resource[T], namespace: str = "", *, selector: Selector = EVERYTHING
    ) -> builtins.list[T]:
        """All of them, as they were at one moment. An object that cannot be decoded raises MalformedAnswer."""
        path = collection_path(resource, namespace or selector.namespace)
        codec = codec_for(resource.model)
        for attempt in range(1, LIST_RESTARTS + 1):
            try:
                return [item async for body in self.pages(path, selector) for item in codec.whole_page(body)]
            except Gone:
                if attempt == LIST_RESTARTS:
                    raise
        raise AssertionError("unreachable")

    async def pages(self, path: str, selector: Selector = EVERYTHING) -> AsyncIterator[bytes]:
        """The bodies of a list's pages; Gone means that the list must begin anew."""
        continuation = ""
        while True:
            params = {"limit": str(PAGE), **selector.query}
            if continuation:
                params["continue"] = continuation
            body = await self.raw("GET", path, params=params)
            yield body
            continuation = _continuation(body)
            if not continuation:
                return

    async def create(
        self, resource: Resource[T], body: Mapping[str, Any], *, namespace: str = "", field_manager: str = ""
    ) -> T:
        write = _write(Verb.CREATE, resource, body, namespace)
        path = collection_path(resource, write.namespace)
        repeatable = Repeatable.NAMED_CREATE if write.name else Repeatable.NEVER
        return await self._written(
            write, "POST", path, _typed(resource, body), field_manager=field_manager, repeatable=repeatable
        )

    async def update(
        self,
        resource: Resource[T],
        body: Mapping[str, Any],
        *,
        namespace: str = "",
        field_manager: str = "",
        subresource: str = "",
    ) -> T:
        """Replaces the whole object. With a resourceVersion in `body`, somebody else's change since is a Conflict."""
        write = _write(Verb.UPDATE, resource, body, namespace, subresource)
        return await self._written(write, "PUT", write.path, _typed(resource, body), field_manager=field_manager)

    async def merge_patch(
        self,
        resource: Resource[T],
        name: str,
        patch: Mapping[str, Any],
        *,
        namespace: str = "",
        subresource: str = "",
        field_manager: str = "",
    ) -> T:
        """A null removes a key, a list is replaced whole."""
        write = Write(Verb.PATCH, resource, name, namespace, subresource)
        return await self._written(
            write, "PATCH", write.path, patch, field_manager=field_manager, content_type=MERGE_PATCH
        )

    async def json_patch(
        self,
        resource: Resource[T],
        name: str,
        patch: Sequence[Mapping[str, Any]],
        *,
        namespace: str = "",
        subresource: str = "",
        field_manager: str = "",
    ) -> T:
        """Never repeated after a lost answer: adding to a list twice is not adding once."""
        write = Write(Verb.PATCH, resource, name, namespace, subresource)
        return await self._written(
            write,
            "PATCH",
            write.path,
            patch,
            field_manager=field_manager,
            content_type=JSON_PATCH,
            repeatable=Repeatable.NEVER,
        )

    async def apply(
        self,
        resource: Resource[T],
        body: Mapping[str, Any],
        *,
        namespace: str = "",
        subresource: str = "",
        field_manager: str,
        force: bool = True,
    ) -> T:
        """Server-side apply. `force` takes over fields that another manager owns; without it that is a Conflict."""
        write = _write(Verb.PATCH, resource, body, namespace, subresource)
        return await self._written(
            write,
            "PATCH",
            write.path,
            _typed(resource, body),
            field_manager=field_manager,
            content_type=APPLY_PATCH,
            params={"force": "true" if force else "false"},
        )

    async def delete(
        self,
        resource: Resource[T],
        name: str,
        namespace: str = "",
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str | None = None,
    ) -> None:
        """NotFound when it was gone already, also when an earlier attempt of this very call removed it.

        `uid` and `resource_version` are preconditions, and a Conflict says that they did not hold.
        """
        expected = {"uid": uid, "resourceVersion": resource_version}
        preconditions = {key: value for key, value in expected.items() if value}
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if preconditions:
            options["preconditions"] = preconditions
        if propagation:
            options["propagationPolicy"] = propagation
        write = Write(Verb.DELETE, resource, name, namespace, uid=uid or "")
        await self._observed(write, "DELETE", write.path, options)

    async def raw(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        repeatable: Repeatable = Repeatable.ALWAYS,
    ) -> bytes:
        """Any request, repeated as far as `repeatable` allows."""
        call = Call(method, path, params or {}, body, content_type=content_type, accept=accept)
        attempts = Attempts(repeatable, budget=self._budget)
        while True:
            try:
                async with asyncio.timeout(min(ATTEMPT, attempts.left)), self._slots:
                    return await self._transport.exchange(call)
            except (ApiError, *NETWORK_ERRORS) as error:
                delay = attempts.delay_after(error)
                if delay is None and isinstance(error, TimeoutError):
                    raise TimeoutError(f"{method} {path}: no answer in time") from error
                if delay is None:
                    raise
            await self._sleep(delay)

    @asynccontextmanager
    async def watch(
        self, path: str, params: Mapping[str, str], *, total: float, silence: float
    ) -> AsyncIterator[AsyncIterator[builtins.list[bytes]]]:
        """A watch's whole lines, as they arrive; one attempt only, since whoever watches knows where to resume.

        `total` and `silence` are the seconds after which the watch, or a connection without a byte, is given up.
        """
        call = Call("GET", path, {"watch": "1", **params}, total=total, silence=silence)
        async with self._transport.stream(call) as response:
            yield _lines(response.content.iter_any())

    async def _written(
        self,
        write: Write[T],
        method: str,
        path: str,
        body: Any,
        *,
        field_manager: str = "",
        content_type: str = "application/json",
        params: Mapping[str, str] | None = None,
        repeatable: Repeatable = Repeatable.ALWAYS,
    ) -> T:
        params = {**(params or {}), **({"fieldManager": field_manager} if field_manager else {})}
        answer = await self._observed(
            write, method, path, body, params=params, content_type=content_type, repeatable=repeatable
        )
        return codec_for(write.resource.model).object(answer)

    async def _observed(self, write: Write[T], method: str, path: str, body: Any, **how: Any) -> bytes:
        answered = [observer(write) for observer in self._observers]
        answer = await self.raw(method, path, body=msgspec.json.encode(body), **how)
        for callback in answered:
            callback(answer)
        return answer


class _Continued(msgspec.Struct, frozen=True):
    continuation: str | None = msgspec.field(name="continue", default=None)


class _Listed(msgspec.Struct):
    metadata: _Continued = _Continued()


_listed = msgspec.json.Decoder(_Listed).decode


def _continuation(body: bytes) -> str:
    return _listed(body).metadata.continuation or ""


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    splitter = LineSplitter()
    async for chunk in chunks:
        lines = splitter.feed(chunk)
        if lines:
            yield lines


def _typed(resource: Resource[Any], body: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **body}


def _write(
    verb: Verb, resource: Resource[T], body: Mapping[str, Any], namespace: str, subresource: str = ""
) -> Write[T]:
    """What the body itself says about the object's name."""
    metadata = body.get("metadata") or {}
    within = (namespace or metadata.get("namespace") or "") if resource.namespaced else ""
    return Write(verb, resource, metadata.get("name") or "", within, subresource)
