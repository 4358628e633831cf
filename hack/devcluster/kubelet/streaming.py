"""The server behind `kubectl exec` and `kubectl logs`, which the API server calls on people's behalf.

Guarantees   An answer that is no stream is a sentence: which Pod or container there is none of.
Assumptions  Only the API server comes here: it listens on loopback and asks nobody who he is.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

from aiohttp import web

from devcluster.containers.interface import State
from devcluster.kubelet import exec as execution
from devcluster.kubelet import logs
from devcluster.kubelet.folders import Folders
from devcluster.kubelet.roster import Roster
from devcluster.kubelet.worker import Worker

HOST: Final = "127.0.0.1"

SHUTDOWN: Final = 0.5
"""Seconds that open streams have at the end."""


class StreamingServer:
    def __init__(self, roster: Roster, folders: Folders, *, port: int, certificate: str, key: str) -> None:
        self._roster = roster
        self._folders = folders
        self._port = port
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        application = web.Application()
        application.router.add_get("/exec/{namespace}/{pod}/{container}", self._exec)
        application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        application.router.add_get("/healthz", _healthy)
        self._runner = web.AppRunner(application, shutdown_timeout=SHUTDOWN)
        await self._runner.setup()
        await web.TCPSite(self._runner, HOST, self._port, ssl_context=self._context).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        worker, name = self._found(request)
        if not worker.containers.known(name).running:
            raise web.HTTPNotFound(text=f'container not found ("{name}")')
        given = self._folders.given(worker.pod, name)
        query = request.query
        wanted = execution.Wanted(
            command=query.getall("command", []),
            environment=given["environment"],
            directory=self._folders.container(worker.pod.uid, name) / "root",
            stdin=_is_set(query.get("input")),
            terminal=_is_set(query.get("tty")),
        )
        return await execution.serve(request, wanted)

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        worker, name = self._found(request)
        query = request.query
        known = worker.containers.known(name)
        state = known.before if _is_set(query.get("previous")) else known.latest
        if state is None:
            kind = "previous terminated container" if _is_set(query.get("previous")) else "container"
            raise web.HTTPBadRequest(text=f'{kind} "{name}" in pod "{worker.pod.name}" not found')
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        tail = query.get("tailLines")
        lines = logs.read(
            Path(state.log),
            tail=int(tail) if tail is not None else None,
            follow=_is_set(query.get("follow")),
            running=lambda: _runs(worker, name, state),
        )
        async for data in lines:
            await response.write(data)
        return response

    def _found(self, request: web.Request) -> tuple[Worker, str]:
        place = request.match_info
        worker = self._roster.worker(place["namespace"], place["pod"])
        if worker is None:
            raise web.HTTPNotFound(text=f'pod "{place["pod"]}" not found in namespace "{place["namespace"]}"')
        if place["container"] not in [each["name"] for each in worker.pod.all_containers]:
            raise web.HTTPNotFound(text=f'container "{place["container"]}" not found in pod "{place["pod"]}"')
        return worker, place["container"]


def _runs(worker: Worker, name: str, state: State) -> bool:
    latest = worker.containers.known(name).latest
    return latest is not None and latest.id == state.id and latest.running


def _is_set(value: str | None) -> bool:
    return value in ("1", "true", "True")


async def _healthy(_request: web.Request) -> web.Response:
    return web.Response(text="ok")
