"""The operator's webhooks, in this process, for a real API server; its caches are the real ones."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from gpustack_op.api.kueue import LOCAL_QUEUES, RESOURCE_FLAVORS
from gpustack_op.api.worker import INSTANCE_TYPES
from gpustack_op.operator.informers import Informers
from gpustack_op.operator.settings.live import LiveSettings
from gpustack_op.operator.settings.sources import Sources
from gpustack_op.operator.webhooks import hooks
from gpustack_op.operator.webhooks.fronting import Fronting
from gpustack_op.operator.webhooks.identity import OwnIdentity
from gpustack_op.operator.workload_fit import FitPin
from gpustack_op.runtime.cache import Caches
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.config import ClientConfig
from gpustack_op.runtime.errors import ApiError, NotFound
from gpustack_op.runtime.metrics import Metrics
from gpustack_op.runtime.webhook.keeper import CertificateKeeper, Plan
from gpustack_op.runtime.webhook.registration import ByUrl
from gpustack_op.runtime.webhook.server import Bind, WebhookServer, server_tls
from gpustack_op.scheduling import names
from tests import builders
from tests.controlplane.people import ACCOUNTS
from tests.waiting import until

NAMESPACE = names.SYSTEM_NAMESPACE
QUEUE = "kueue.x-k8s.io/queue-name"
PROBE = "gpustack-fnv64-ffffffffffffffff"
"""An entrance of no pool: only our webhook minds it."""

Json = dict[str, Any]


@dataclass
class Judging:
    """Pods and Jobs as people make them, and what becomes of them. They stay: each test has a namespace of its own."""

    client: Client
    namespace: str

    async def pod(self, name: str, queue: str, spec: Json, **metadata: Any) -> Json:
        """What is stored of a Pod with this queue label, or with none if it is empty."""
        return await self._create("/api/v1", "pods", "Pod", name, queue, spec, metadata)

    async def job(self, name: str, queue: str, pod: Json, **template: Any) -> Json:
        spec = {"suspend": True, "template": {"spec": {"restartPolicy": "Never", **pod}, **template}}
        return await self._create("/apis/batch/v1", "jobs", "Job", name, queue, spec, {})

    async def change_job(self, name: str, patch: Mapping[str, Any]) -> Json:
        path = f"/apis/batch/v1/namespaces/{self.namespace}/jobs/{name}"
        content_type = "application/strategic-merge-patch+json"
        body = msgspec.json.encode(patch)
        return self._read(await self.client.raw("PATCH", path, body=body, content_type=content_type))

    async def _create(
        self, api: str, plural: str, kind: str, name: str, queue: str, spec: Json, metadata: Json
    ) -> Json:
        described = {"name": name, "labels": {QUEUE: queue} if queue else {}, **metadata}
        body = {"apiVersion": api.removeprefix("/apis/").removeprefix("/api/"), "kind": kind, "metadata": described}
        path = f"{api}/namespaces/{self.namespace}/{plural}"
        return self._read(await self.client.raw("POST", path, body=msgspec.json.encode(body | {"spec": spec})))

    def _read(self, answer: bytes) -> Json:
        read: Json = msgspec.json.decode(answer)
        return read


@asynccontextmanager
async def judging(config: ClientConfig) -> AsyncIterator[Client]:
    """The webhooks are registered and answer as long as the block lasts; gives an administrator's client."""
    tls = server_tls()
    async with Client(config) as client:
        caches = Caches(client, freeze=lambda: None)
        informers = Informers.of(caches, NAMESPACE)
        server = WebhookServer(Bind("127.0.0.1", 0), tls, Metrics())
        fronting = Fronting(informers, client)
        fit = FitPin(informers, LiveSettings(Sources.of(caches, NAMESPACE)))
        hooks.install(server, informers, OwnIdentity(client, NAMESPACE), fronting, fit, namespace=NAMESPACE)
        await server.start()
        caches.start()
        address = ByUrl(f"https://127.0.0.1:{server.port}")
        plan = Plan(NAMESPACE, hooks.STORED_PAIR, address, hooks.registrations(NAMESPACE))
        await CertificateKeeper(client, tls, plan).mend()
        try:
            await until(lambda: _asked(client))
            yield client
        finally:
            await caches.stop()
            await server.stop()


async def _asked(client: Client) -> bool:
    """Whether the API server asks this server, and not one of a test before."""
    judge = Judging(client, "default")
    if not await _there(client, "default"):
        await client.create(ACCOUNTS, {"metadata": {"name": "default"}}, namespace="default")
    told = []
    for making in (judge.pod, judge.job):
        try:
            await making("probe", PROBE, {"containers": [{"name": "a", "image": "a"}]})
        except ApiError as refused:
            told.append(refused.message)
    return [f"no instance type fronts local queue {PROBE}" in each for each in told] == [True, True]


async def _there(client: Client, namespace: str) -> bool:
    try:
        await client.get(ACCOUNTS, "default", namespace)
    except NotFound:
        return False
    return True


async def add_type(client: Client, name: str, group: str, detail: Json | None) -> str:
    """A pool, and what the operator would have found out of its hardware; gives its entrance."""
    unit = {"cpu": "1", "ram": "2Gi"}
    spec = {"acceleratable": bool(group), "os": "linux", "arch": "amd64", "unitResources": unit, "localStorage": "1Gi"}
    if group:
        spec["acceleratorGroup"] = group
    await client.create(INSTANCE_TYPES, {"metadata": {"name": name}, "spec": spec})
    if detail is not None:
        patch = {"status": {"detail": detail}}
        await client.merge_patch(INSTANCE_TYPES, name, patch, subresource="status")
    return names.entrance(name)


async def add_flavor(client: Client, short: str) -> None:
    """The flavor of one machine's cards, which tells how many a node has."""
    flavor = builders.flavor(short, cards=True)
    metadata = {"name": flavor.name, "labels": flavor.labels, "annotations": flavor.annotations}
    spec = {"nodeLabels": dict(flavor.spec.node_labels or {})}
    await client.create(RESOURCE_FLAVORS, {"metadata": metadata, "spec": spec})


async def add_local_queue(client: Client, name: str, namespace: str, pool: str) -> None:
    await client.create(LOCAL_QUEUES, {"metadata": {"name": name}, "spec": {"clusterQueue": pool}}, namespace=namespace)
