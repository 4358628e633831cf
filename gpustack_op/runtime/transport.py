"""One exchange with the API server: a request goes out with fresh credentials, an answer or an exception comes back.

Guarantees   One session for everything, HTTP/1.1, identity encoding, no redirects, every request timed. A refused
             token is renewed and the request sent once more. Every exchange is reported to the observer.
Assumptions  Repeating a request that was answered 401 is safe: it was not carried out.
Recovery     A broken connection is dropped from the pool by aiohttp; whether to ask again is the caller's decision.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass
from types import TracebackType
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from gpustack_op.runtime.config import ClientConfig
from gpustack_op.runtime.credentials import Credentials, Proof
from gpustack_op.runtime.errors import NETWORK_ERRORS, ApiError, Unauthorized, error_from

Observer = Callable[[str, str, str], None]
"""Called with code, method and host of every exchange, for `rest_client_requests_total`."""

NO_ANSWER: Final = "<error>"
"""What client-go counts instead of a code when the connection broke."""

CONNECT_TIMEOUT: Final = 10.0
"""Seconds until a connection must stand."""

READ_BUFFER: Final = 256 * 1024
"""Bytes read ahead of the reader, enough that a busy watch is not throttled."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request, less the credentials."""

    method: str
    path: str
    params: Mapping[str, str]
    body: bytes | None = None
    _: KW_ONLY
    content_type: str = "application/json"
    accept: str = "application/json"
    total: float | None = None
    """Seconds for the whole exchange, where the caller has no timeout of his own."""

    silence: float | None = None
    """Seconds without a byte after which the connection counts as dead."""


class Transport:
    def __init__(self, config: ClientConfig, *, user_agent: str, observe: Observer | None = None) -> None:
        self._config = config
        self._credentials = Credentials(config)
        self._base = config.server.rstrip("/")
        self._host = URL(self._base).authority
        self._user_agent = user_agent
        self._observe = observe or (lambda _code, _method, _host: None)
        self._opened: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Transport:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()

    async def exchange(self, call: Call) -> bytes:
        """The whole body of a successful answer."""
        async with self.stream(call) as response:
            return await response.read()

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[aiohttp.ClientResponse]:
        """A successful answer whose body is still to be read."""
        response = await self._answered(call)
        try:
            yield response
        finally:
            _leave(response)

    async def _answered(self, call: Call) -> aiohttp.ClientResponse:
        proof = await self._credentials.current()
        try:
            return await self._sent(call, proof)
        except Unauthorized:
            return await self._sent(call, await self._credentials.refused(proof))

    async def _sent(self, call: Call, proof: Proof) -> aiohttp.ClientResponse:
        try:
            response = await self._session().request(**self._arguments(call, proof))
        except NETWORK_ERRORS:
            self._observe(NO_ANSWER, call.method, self._host)
            raise
        self._observe(str(response.status), call.method, self._host)
        if response.status >= 300:
            raise await _refusal(response)
        return response

    def _arguments(self, call: Call, proof: Proof) -> dict[str, Any]:
        query = f"?{urlencode(call.params)}" if call.params else ""
        return {
            "method": call.method,
            "url": URL(f"{self._base}{call.path}{query}", encoded=True),
            "data": call.body,
            "headers": self._headers(call, proof),
            "ssl": proof.tls,
            "server_hostname": self._config.server_name,
            "proxy": self._config.proxy,
            "allow_redirects": False,
            "timeout": aiohttp.ClientTimeout(total=call.total, sock_connect=CONNECT_TIMEOUT, sock_read=call.silence),
        }

    def _headers(self, call: Call, proof: Proof) -> dict[str, str]:
        headers = {"Accept": call.accept, "Accept-Encoding": "identity", "User-Agent": self._user_agent}
        if proof.authorization:
            headers["Authorization"] = proof.authorization
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        return headers

    def _session(self) -> aiohttp.ClientSession:
        """Opened at first use, since aiohttp wants a running loop."""
        if self._opened is None:
            self._opened = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=READ_BUFFER,
                auto_decompress=False,
            )
        return self._opened


def _leave(response: aiohttp.ClientResponse) -> None:
    """Keeps the connection when the body was read. Otherwise cuts it, since a dead peer would answer no farewell."""
    if response.content.at_eof():
        response.release()
        return
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()
    response.close()


async def _refusal(response: aiohttp.ClientResponse) -> ApiError:
    async with response:
        try:
            body = await response.read()
        except NETWORK_ERRORS:
            body = b""
        return error_from(response.status, body, response.headers)
