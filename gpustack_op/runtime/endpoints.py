"""Serves `/metrics` and `/readyz`.

Guarantees   Both answer from before anything else starts until after everything else has stopped.
Assumptions  The port is reached by the kubelet and Prometheus alone: there is no authentication.
Recovery     None needed: nothing is kept between two requests.
"""

from __future__ import annotations

from aiohttp import web

from gpustack_op.runtime.health import Readiness
from gpustack_op.runtime.metrics import CONTENT_TYPE, Metrics


class Endpoints:
    """Port 0 takes a free one."""

    def __init__(self, metrics: Metrics, readiness: Readiness, host: str, port: int) -> None:
        self._metrics = metrics
        self._readiness = readiness
        self._host, self._port = host, port
        self._runner: web.AppRunner | None = None

    @property
    def port(self) -> int:
        assert self._runner is not None, "the endpoints are not started"
        return int(self._runner.addresses[0][1])

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/metrics", self._scrape)
        app.router.add_get("/readyz", self._ready)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self._port).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _scrape(self, _request: web.Request) -> web.Response:
        return web.Response(body=self._metrics.render(), headers={"Content-Type": CONTENT_TYPE})

    async def _ready(self, _request: web.Request) -> web.Response:
        answer = self._readiness.answer()
        return web.Response(text=answer.text, status=200 if answer.ready else 503)
