"""An API server that misbehaves as told.

Each request takes the next answer scripted for its verb and path. Verbs are `stream` (a watch that asks for the initial
list), `watch` (one that resumes), `list`, and the HTTP methods in lower case for everything else. A watch that nobody
scripted stays open and silent; any other unscripted request is answered 501.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Any

import msgspec
from aiohttp import web

CLOSE, CUT = object(), object()


@dataclass(frozen=True)
class Seen:
    """A request that arrived."""

    verb: str
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    peer: object = None
    at: float = 0.0


@dataclass
class Reply:
    """A whole answer. A body that is not bytes is sent as JSON."""

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    before: Callable[[], None] | None = None


class Hang:
    """The request is taken and never answered."""


class Lost:
    """The request is taken, and the connection broken instead of an answer."""


class Stream:
    """A watch's answer, written while the test goes on."""

    def __init__(self, *lines: bytes, piece: int = 0) -> None:
        """`piece` is the size in bytes of the pieces in which everything is sent; 0 sends each line whole."""
        self.opened = asyncio.Event()
        self._piece = piece
        self._queue: asyncio.Queue[Any] = asyncio.Queue()
        self.send(*lines)

    def send(self, *lines: bytes) -> Stream:
        for line in lines:
            self._queue.put_nowait(line)
        return self

    def close(self) -> Stream:
        """Ends the answer properly."""
        self._queue.put_nowait(CLOSE)
        return self

    def cut(self) -> Stream:
        """Breaks the connection."""
        self._queue.put_nowait(CUT)
        return self

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        self.opened.set()
        while (item := await self._queue.get()) is not CLOSE:
            if item is CUT:
                _abort(request)
                break
            for piece in _pieces(item, self._piece):
                await response.write(piece)
        return response


def _pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)] if size else [data]


def _abort(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()


class ApiServer:
    def __init__(self) -> None:
        self.url = ""
        self.seen: list[Seen] = []
        self.tokens: set[str] | None = None
        """Tokens that are accepted; None accepts everybody."""

        self._scripts: dict[tuple[str, str], deque[Any]] = defaultdict(deque)
        self._arrived = asyncio.Condition()

    def script(self, verb: str, path: str, *answers: Any) -> None:
        self._scripts[verb, path].extend(answers)

    def stream(self, path: str, *lines: bytes, verb: str = "stream", piece: int = 0) -> Stream:
        """Scripts a streamed answer and returns it, to be written on."""
        answer = Stream(*lines, piece=piece)
        self.script(verb, path, answer)
        return answer

    def of(self, *verbs: str) -> list[Seen]:
        return [seen for seen in self.seen if seen.verb in verbs]

    async def until(self, count: int, *verbs: str) -> list[Seen]:
        """Waits until that many requests with one of these verbs have arrived."""
        async with asyncio.timeout(10), self._arrived:
            await self._arrived.wait_for(lambda: len(self.of(*verbs)) >= count)
        return self.of(*verbs)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        seen = await _seen(request)
        async with self._arrived:
            self.seen.append(seen)
            self._arrived.notify_all()
        if self.tokens is not None and seen.headers.get("Authorization", "").removeprefix("Bearer ") not in self.tokens:
            return await self._answer(request, Reply(401, status(401, "Unauthorized")))
        script = self._scripts[seen.verb, seen.path]
        if script:
            return await self._answer(request, script.popleft())
        if seen.verb in ("stream", "watch"):
            return await Stream().serve(request)
        return await self._answer(request, Reply(501, f"{seen.verb} {seen.path} is not scripted".encode()))

    async def _answer(self, request: web.BaseRequest, answer: Any) -> web.StreamResponse:
        if isinstance(answer, Stream):
            return await answer.serve(request)
        if isinstance(answer, Hang):
            await asyncio.Event().wait()
        if isinstance(answer, Lost):
            _abort(request)
            return web.Response()
        if answer.before is not None:
            answer.before()
        body = answer.body if isinstance(answer.body, bytes) else msgspec.json.encode(answer.body)
        return web.Response(
            status=answer.status, body=body, headers={"Content-Type": answer.content_type, **answer.headers}
        )

    @asynccontextmanager
    async def running(self, tls: SSLContext | None = None, port: int = 0) -> AsyncIterator[ApiServer]:
        runner = web.ServerRunner(web.Server(self.handle), handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls)
        await site.start()
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()


async def _seen(request: web.BaseRequest) -> Seen:
    query = dict(request.query)
    verb = request.method.lower()
    if "watch" in query:
        verb = "stream" if "sendInitialEvents" in query else "watch"
    elif "limit" in query:
        verb = "list"
    body = await request.read()
    return Seen(
        verb,
        request.method,
        request.path,
        query,
        dict(request.headers),
        msgspec.json.decode(body) if body else None,
        peer=request.transport.get_extra_info("peername") if request.transport else None,
        at=asyncio.get_running_loop().time(),
    )


# --- what API servers say


def as_json(obj: Any) -> bytes:
    return msgspec.json.encode(obj)


def line(type_: str, obj: Any) -> bytes:
    return msgspec.json.encode({"type": type_, "object": obj}) + b"\n"


def added(*objects: Any) -> bytes:
    return b"".join(line("ADDED", obj) for obj in objects)


def modified(obj: Any) -> bytes:
    return line("MODIFIED", obj)


def deleted(obj: Any) -> bytes:
    return line("DELETED", obj)


def bookmark(version: int, *, ends_list: bool = False) -> bytes:
    metadata: dict[str, Any] = {"resourceVersion": str(version), "creationTimestamp": None}
    if ends_list:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return line("BOOKMARK", {"kind": "Thing", "metadata": metadata, "spec": None})


def whole_list(version: int, *objects: Any) -> bytes:
    """A streamed list from its beginning to its end."""
    return added(*objects) + bookmark(version, ends_list=True)


def page(version: int, *objects: Any, continuation: str = "") -> dict[str, Any]:
    metadata = {"resourceVersion": str(version), **({"continue": continuation} if continuation else {})}
    return {"kind": "ThingList", "metadata": metadata, "items": list(objects)}


def status(code: int, reason: str, message: str = "", **details: Any) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message or reason,
        "reason": reason,
        "code": code,
        **({"details": details} if details else {}),
    }


def expired(reason: str = "Expired") -> bytes:
    return line("ERROR", status(410, reason, "too old resource version"))


NOT_SERVED = Reply(404, b"404 page not found\n", content_type="text/plain; charset=utf-8")
