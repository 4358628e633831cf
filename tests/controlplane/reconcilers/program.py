"""The operator's whole program in this process, webhooks and readiness included."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from gpustack_op.api.worker import INSTANCE_TYPES
from gpustack_op.cli.operator import assemble, manager_options, parser
from gpustack_op.operator.webhooks import hooks
from gpustack_op.runtime.cache import Caches
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.config import ClientConfig
from gpustack_op.runtime.errors import ApiError, Invalid, NotFound
from gpustack_op.runtime.manager import Manager
from tests.controlplane.reconcilers.stage import Stage
from tests.controlplane.sockets import all_closed

TYPES = "/apis/worker.gpustack.ai/v1/instancetypes"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"


@dataclass
class Program:
    manager: Manager
    stage: Stage
    """People, with all that they can do; no controller of it runs."""

    async def ready(self) -> tuple[int, str]:
        """What /readyz answers."""
        endpoints = self.manager.endpoints
        assert endpoints is not None
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{endpoints.port}/readyz") as got:
            return got.status, await got.text()

    async def create(self, name: str, spec: Any) -> Any:
        """What is stored of a new InstanceType, as plain JSON."""
        body = {"apiVersion": INSTANCE_TYPES.api_version, "kind": "InstanceType", "metadata": {"name": name}}
        answer = await self.stage.people.raw("POST", TYPES, body=msgspec.json.encode(body | {"spec": spec}))
        return msgspec.json.decode(answer)

    async def refusal(self, name: str, spec: Any) -> str:
        """Why it is not stored, as a person reads it."""
        try:
            await self.create(name, spec)
        except Invalid as refused:
            return refused.message
        return "stored"

    async def judging(self) -> bool:
        """Whether the API server has come to know our webhooks."""
        try:
            await self.create("probe", {"acceleratable": True})
        except ApiError as refused:
            return "validate.worker.gpustack.ai" in refused.message and isinstance(refused, Invalid)
        with suppress(NotFound):
            await self.stage.people.delete(INSTANCE_TYPES, "probe")
        return False


@asynccontextmanager
async def program(config: ClientConfig) -> AsyncIterator[Program]:
    port = _free_port()
    options = parser().parse_args(
        [
            "--no-leader-elect", "--metrics-bind=127.0.0.1:0", "--health-bind=",
            f"--webhook-bind=127.0.0.1:{port}", f"--webhook-url=https://127.0.0.1:{port}",
        ]
    )  # fmt: skip
    async with all_closed(), Client(config, budget=5.0) as client, Client(config) as people:
        caches = Caches(client, freeze=lambda: None)
        manager = assemble(Manager(client, caches, options=manager_options(options)), client, caches, options)
        running = asyncio.create_task(manager.run())
        made = Program(manager, Stage(people, people))
        try:
            await made.stage.until(made.judging, within=30)
            yield made
        finally:
            manager.request_stop()
            await running
            await _unregister(people)


async def _unregister(client: Client) -> None:
    for kind, name in (
        ("mutatingwebhookconfigurations", hooks.MUTATION),
        ("validatingwebhookconfigurations", hooks.VALIDATION),
    ):
        with suppress(NotFound):
            await client.raw("DELETE", f"{CONFIGURATIONS}/{kind}/{name}")


def _free_port() -> int:
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return int(chosen.getsockname()[1])
