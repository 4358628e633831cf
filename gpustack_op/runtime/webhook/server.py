"""Answers admission reviews over TLS.

Guarantees   A body up to `BODY_LIMIT` is judged; a larger one gets 413 and is never held in memory; a wrong content
             type, an empty body or anything that is no AdmissionReview gets 400. Whatever a handler raises becomes one
             refusal with code 500 (503 when it could not reach the API server), and the server goes on. A handler that
             does not answer in time is cut, so that a person reads our sentence and no bare timeout.
             A certificate loaded into the TLS context later serves every connection opened after that.
Assumptions  Handlers have no side effects, or look at `dry_run`. The context holds a certificate before `start`.
Recovery     The API server asks again where its `failurePolicy` says so; nothing is kept between two reviews.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from http import HTTPStatus
from weakref import WeakSet

from aiohttp import web

from gpustack_op.runtime.logging import logger
from gpustack_op.runtime.metrics import Metrics
from gpustack_op.runtime.webhook.handling import HANDLER_SECONDS, Handler, defaulting, judge, validating
from gpustack_op.runtime.webhook.instruments import Instruments
from gpustack_op.runtime.webhook.intake import BODY_LIMIT, JSON, read_body
from gpustack_op.runtime.webhook.review import Defaulter, ReviewError, Validator, read_review, write_answer

LINGER_SECONDS = 1.0
"""How long the rest of a refused body is still taken and thrown away, so that its sender gets to read why."""

GOODBYE_SECONDS = 0.1
"""For clients to take their last answers and part in the orderly way of TLS; who has not, is cut off."""

log = logger("webhook")


def server_tls() -> ssl.SSLContext:
    """A context without a certificate: the keeper loads one before the server starts, and again at every renewal."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


@dataclass(frozen=True, slots=True)
class Bind:
    """Where the server listens; port 0 takes a free one."""

    host: str = "0.0.0.0"
    port: int = 9443


class WebhookServer:
    def __init__(self, bind: Bind, tls: ssl.SSLContext, metrics: Metrics) -> None:
        self.bind = bind
        self.tls = tls
        self.instruments = Instruments(metrics)
        self._app = web.Application(client_max_size=BODY_LIMIT)
        self._runner: web.AppRunner | None = None
        self._transports: WeakSet[asyncio.Transport] = WeakSet()

    def add_defaulter(self, path: str, defaulter: Defaulter) -> None:
        self._serve(path, defaulting(defaulter))

    def add_validator(self, path: str, validator: Validator) -> None:
        self._serve(path, validating(validator))

    @property
    def port(self) -> int:
        """The port it really listens on."""
        assert self._runner is not None, "the webhook server is not started"
        return int(self._runner.addresses[0][1])

    async def start(self) -> None:
        # Bodies stay compressed: none can grow past the limit while it is read. The API server sends them plain anyway.
        self._runner = web.AppRunner(
            self._app,
            access_log=None,
            auto_decompress=False,
            lingering_time=LINGER_SECONDS,
            shutdown_timeout=HANDLER_SECONDS,
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, self.bind.host, self.bind.port, ssl_context=self.tls).start()
        log.info("webhook.listening", host=self.bind.host, port=self.port)

    async def stop(self) -> None:
        """Takes no new connection, and returns when the reviews under way are answered and all connections closed."""
        if self._runner is None:
            return
        await self._runner.cleanup()
        await asyncio.sleep(GOODBYE_SECONDS)
        for transport in self._transports:
            transport.abort()
        await asyncio.sleep(0)

    def _serve(self, path: str, handler: Handler) -> None:
        async def respond(request: web.Request) -> web.StreamResponse:
            if isinstance(request.transport, asyncio.Transport):
                self._transports.add(request.transport)
            with self.instruments.measuring(path):
                response = await _respond(request, path, handler)
            self.instruments.answered(path, response.status)
            return response

        self._app.router.add_post(path, respond)


async def _respond(request: web.Request, path: str, handler: Handler) -> web.Response:
    try:
        review = read_review(await read_body(request))
    except ReviewError as error:
        return web.Response(status=HTTPStatus.BAD_REQUEST, text=str(error))
    except web.HTTPException as refused:
        return web.Response(status=refused.status, text=refused.text)
    verdict, patch = await judge(path, handler, review)
    return web.Response(body=write_answer(review.request.uid, verdict, patch), content_type=JSON)
