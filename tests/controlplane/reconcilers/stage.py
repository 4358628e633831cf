"""Chosen controllers of the operator in this process, against a real API server, and people who edit beside them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import fields
from typing import Any, Final, TypeVar

import msgspec

from gpustack_op.api.core import SECRETS
from gpustack_op.api.meta import KubeObject, Resource
from gpustack_op.api.worker import INSTANCE_TYPES, SETTINGS
from gpustack_op.operator import controllers
from gpustack_op.operator.controllers import Parts
from gpustack_op.operator.informers import Informers
from gpustack_op.operator.node_states import NodeStates
from gpustack_op.operator.settings.live import LiveSettings
from gpustack_op.operator.settings.reconciler import SettingsReconciler, settings_controller
from gpustack_op.operator.settings.sources import Sources, encoded
from gpustack_op.runtime.cache import Caches
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.config import ClientConfig
from gpustack_op.runtime.controller import Controller, Request
from gpustack_op.runtime.errors import Conflict, NotFound
from gpustack_op.runtime.events import Recorder
from gpustack_op.scheduling.names import SETTINGS_SECRET, SYSTEM_NAMESPACE
from tests.controlplane.sockets import all_closed
from tests.memory_cluster import WATCHED, without_nones

T = TypeVar("T")
R = TypeVar("R", bound=KubeObject)

NAMESPACE: Final = SYSTEM_NAMESPACE
LOOK_AGAIN: Final = 0.03
"""Seconds between two looks at a condition."""

EVERYTHING: Final = (
    "node_feature",
    "node_feature_rule",
    "devices",
    "node_capacity",
    "fit_labels",
    "topology",
    "flavors",
    "queues",
    "entrances",
    "instance_types",
    "instance_type_status",
    "catalog",
    "admission_check",
    "admission_judge",
    "workload_fit",
    "settings",
)


class Stage:
    def __init__(self, operator: Client, people: Client) -> None:
        """`operator` is the operator's own client: what it writes is in the caches at once, as in the program."""
        self.people = people
        self.caches = Caches(operator, freeze=lambda: None)
        self.informers = Informers.of(self.caches, NAMESPACE)
        self.sources = Sources.of(self.caches, NAMESPACE)
        self.settings = LiveSettings(self.sources)
        self.recorder = Recorder(operator, controller="gpustack.ai/operator", instance="test")
        self.states = NodeStates(self.informers, self.settings, namespace=NAMESPACE, clock=time.monotonic)
        self.parts = Parts(self.informers, operator, self.recorder, self.settings, self.states, NAMESPACE)
        self.controllers: dict[str, Controller] = {}
        self.writes: list[str] = []

    # --- what people do

    async def add(self, resource: Resource[R], obj: KubeObject | Mapping[str, Any]) -> R:
        """Creates it, with its status."""
        body = without_nones(msgspec.to_builtins(obj))
        metadata = {key: value for key, value in body["metadata"].items() if key not in SERVERS_OWN}
        namespace = metadata.get("namespace", "")
        created = await self.people.create(resource, {**body, "metadata": metadata}, namespace=namespace)
        if body.get("status"):
            patch = {"status": body["status"]}
            return await self.people.merge_patch(
                resource, created.name, patch, namespace=namespace, subresource="status"
            )
        return created

    async def edit(
        self, resource: Resource[R], name: str, patch: Mapping[str, Any], *, within: str = "", subresource: str = ""
    ) -> R:
        return await self.people.merge_patch(
            resource, name, patch, namespace=within, subresource=subresource, field_manager="kubectl-edit"
        )

    async def remove(self, resource: Resource[Any], name: str, *, within: str = "") -> None:
        await self.people.delete(resource, name, within)

    async def get(self, resource: Resource[R], name: str, *, within: str = "") -> R | None:
        with suppress(NotFound):
            return await self.people.get(resource, name, within)
        return None

    async def names(self, resource: Resource[Any]) -> list[str]:
        return sorted(each.name for each in await self.people.list(resource))

    async def set(self, **texts: str) -> None:
        """Settings in the Secret, with `_` for `-`."""
        data = {name.replace("_", "-"): encoded(text) for name, text in texts.items()}
        await self.edit(SECRETS, SETTINGS_SECRET, {"data": data}, within=NAMESPACE)

    async def notes(self, reason: str) -> list[str]:
        """What Events of this reason say, and no other test's."""
        body = await self.people.raw("GET", "/apis/events.k8s.io/v1/events")
        return [each["note"] for each in msgspec.json.decode(body)["items"] if each["reason"] == reason]

    # --- waiting

    async def until(self, look: Callable[[], Awaitable[T]], *, within: float = 15) -> T:
        """What was seen when it was true."""
        deadline = time.monotonic() + within
        while True:
            with suppress(NotFound):
                seen = await look()
                if seen:
                    return seen
            assert time.monotonic() < deadline, f"not so within {within} s"
            await asyncio.sleep(LOOK_AGAIN)

    async def until_there(self, resource: Resource[R], name: str, *, within: str = "") -> R:
        return await self.until(lambda: self.people.get(resource, name, within))

    async def until_gone(self, resource: Resource[Any], name: str, *, within: str = "") -> None:
        async def gone() -> bool:
            return await self.get(resource, name, within=within) is None

        await self.until(gone)

    async def until_so(
        self, resource: Resource[R], name: str, condition: Callable[[R], object], *, within: str = ""
    ) -> R:
        """The object when the condition held."""

        async def look() -> R | None:
            seen = await self.people.get(resource, name, within)
            return seen if condition(seen) else None

        found = await self.until(look)
        assert found is not None
        return found

    async def settle(self) -> None:
        """Until every type has told its state, and reconciling everything once more writes nothing."""
        while await self.reconcile_everything() or not await self._types_have_told():
            pass

    async def _types_have_told(self) -> bool:
        """A new type may take its time to say what it waits for."""
        types = await self.people.list(INSTANCE_TYPES)
        return "instance-type-status" not in self.controllers or all(type_.status for type_ in types)

    async def reconcile_everything(self) -> list[str]:
        """Wakes every key of every controller and waits for the end of it; the writes that it took."""
        await self._see_everything()
        await self._idle()
        before = len(self.writes)
        for controller in self.controllers.values():
            for request in self._keys():
                controller.enqueue(request)
        await self._idle()
        return self.writes[before:]

    async def versions(self) -> dict[str, str]:
        """The version of every object of every kind that the operator knows."""
        kinds = (*WATCHED.values(), SECRETS, SETTINGS)
        lists = await asyncio.gather(*(self.people.list(kind) for kind in kinds))
        return {
            f"{kind.plural} {each.namespace} {each.name}": each.metadata.resource_version
            for kind, found in zip(kinds, lists, strict=True)
            for each in found
        }

    async def _idle(self) -> None:
        async def idle() -> bool:
            return not any(len(c.queue) or c.queue.working() for c in self.controllers.values())

        await self.until(idle, within=30)

    async def _see_everything(self) -> None:
        """Until the operator's caches hold what the server does."""

        async def seen() -> bool:
            versions = await self.versions()
            held = {
                f"{informer.resource.plural} {each.namespace} {each.name}": each.metadata.resource_version
                for informer in self._followed()
                for each in informer.all()
            }
            return all(versions.get(key) == version for key, version in held.items()) and len(held) == len(
                [key for key in versions if self._is_followed(key)]
            )

        await self.until(seen)

    def _followed(self) -> list[Any]:
        return [getattr(self.informers, each.name) for each in fields(Informers)]

    def _is_followed(self, key: str) -> bool:
        plural, namespace, _ = key.split(" ", 2)
        return plural not in {"secrets", "settings"} and (plural != "nodefeatures" or namespace == NAMESPACE)

    def _keys(self) -> Iterable[Request]:
        objects = [each for informer in self._followed() for each in informer.all()]
        return {Request(each.name, each.namespace) for each in objects} | {
            Request("catalog"),
            Request(SETTINGS_SECRET, NAMESPACE),
        }


SERVERS_OWN: Final = ("uid", "resource_version", "resourceVersion", "generation", "creationTimestamp")


@asynccontextmanager
async def staged(config: ClientConfig, *names: str) -> AsyncIterator[Stage]:
    """These controllers, running."""
    stop = asyncio.Event()
    async with all_closed(), AsyncExitStack() as stack:
        writes: list[str] = []

        def observe(code: str, method: str, host: str) -> None:
            if method != "GET":
                writes.append(f"{method} {code}")

        operator = await stack.enter_async_context(Client(config, budget=5.0, observe=observe))
        people = await stack.enter_async_context(Client(config))
        stage = Stage(operator, people)
        stage.writes = writes
        for name in names:
            stage.controllers[name] = _controller(stage, name)
        stage.caches.start()
        tasks = [asyncio.create_task(each.run(stop)) for each in stage.controllers.values()]
        tasks.append(asyncio.create_task(stage.recorder.run(stop)))
        try:
            yield stage
        finally:
            stop.set()
            await asyncio.gather(*tasks)
            await stage.caches.stop()


def _controller(stage: Stage, name: str) -> Controller:
    if name == "settings":
        writer = stage.parts.writer("settings")
        return settings_controller(SettingsReconciler(stage.sources, stage.parts.client, writer, stage.recorder))
    made: Controller = getattr(controllers, name)(stage.parts)
    return made


async def wipe(client: Client) -> None:
    """Nothing of what tests made is left, whatever holds it."""
    for namespace in ("default", NAMESPACE):
        await client.raw("DELETE", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
    for resource in (*WATCHED.values(), SETTINGS):
        if resource.plural != "namespaces":
            await asyncio.gather(*(_end(client, resource, each) for each in await client.list(resource)))
    with suppress(NotFound):
        await client.delete(SECRETS, SETTINGS_SECRET, NAMESPACE)


async def _end(client: Client, resource: Resource[Any], obj: KubeObject) -> None:
    with suppress(NotFound, Conflict):
        if obj.metadata.finalizers:
            patch = {"metadata": {"finalizers": None}}
            await client.merge_patch(resource, obj.name, patch, namespace=obj.namespace)
        if not obj.deleting:
            await client.delete(resource, obj.name, obj.namespace)
