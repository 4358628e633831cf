"""What the framework writes, judged by a real API server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gpustack_op.api.core import NODES, SECRETS
from gpustack_op.api.meta import PartialObject, Resource
from gpustack_op.api.worker import INSTANCE_TYPES
from gpustack_op.runtime.apply import NotOursError, Owned, Writer
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.errors import Conflict, NotFound
from gpustack_op.runtime.event_objects import EVENTS, ObjectReference
from gpustack_op.runtime.events import Recorder
from gpustack_op.runtime.finalizers import add_finalizer, remove_finalizer
from gpustack_op.runtime.leader_election import ElectionOptions, Elector
from gpustack_op.runtime.leases import LEASES
from gpustack_op.runtime.reconciler import TryAgainError
from tests.runtime.fake_time import settle

OURS = "example.com/ours"
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", PartialObject, namespaced=True)


def secret(name: str, *, labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    marks = {"made-by": "us", **(labels or {})}
    return {"metadata": {"name": name, "namespace": "default", "labels": marks}, "data": data}


async def test_a_settled_object_is_not_written_and_a_changed_one_once(client: Client) -> None:
    writer = Writer(client, "test-writer")
    created = await writer.converge(SECRETS, secret("settled", a="YQ=="), None)
    assert created is not None
    assert await writer.converge(SECRETS, secret("settled", a="YQ=="), created) is None
    changed = await writer.converge(SECRETS, secret("settled", a="Yg=="), created)
    assert changed is not None
    assert changed.data == {"a": "Yg=="}
    assert await client.get(SECRETS, "settled", "default") == changed


async def test_a_key_we_no_longer_want_goes_though_it_came_with_the_create(client: Client) -> None:
    writer, owned = Writer(client, "test-writer"), Owned(exact=("data",))
    created = await writer.converge(SECRETS, secret("shrinking", a="YQ==", b="Yg=="), None, owned=owned)
    changed = await writer.converge(SECRETS, secret("shrinking", a="YQ=="), created, owned=owned)
    assert changed is not None
    assert changed.data == {"a": "YQ=="}


async def test_keys_of_others_are_removed_from_a_map_that_is_ours_alone(client: Client) -> None:
    writer, owned = Writer(client, "test-writer"), Owned(exact=("data", "metadata.labels[made-*]"))
    created = await writer.converge(SECRETS, secret("crowded", a="YQ=="), None, owned=owned)
    assert created is not None
    patch = {"metadata": {"labels": {"made-up": "x", "theirs": "y"}}, "data": {"z": "eg=="}}
    crowded = await client.merge_patch(SECRETS, "crowded", patch, namespace="default", field_manager="kubectl-edit")
    cleaned = await writer.converge(SECRETS, secret("crowded", a="YQ=="), crowded, owned=owned)
    assert cleaned is not None
    assert cleaned.data == {"a": "YQ=="}
    assert cleaned.labels == {"made-by": "us", "theirs": "y"}
    assert await writer.converge(SECRETS, secret("crowded", a="YQ=="), cleaned, owned=owned) is None


async def test_an_object_that_was_deleted_meanwhile_is_not_made_again_by_an_update(client: Client) -> None:
    writer = Writer(client, "test-writer")
    created = await writer.converge(SECRETS, secret("deleted", a="YQ=="), None)
    assert created is not None
    await writer.delete(SECRETS, created)
    with pytest.raises(Conflict):
        await writer.converge(SECRETS, secret("deleted", a="Yg=="), created)
    with pytest.raises(NotFound):
        await client.get(SECRETS, "deleted", "default")


async def test_a_later_object_of_that_name_is_not_written(client: Client) -> None:
    writer = Writer(client, "test-writer")
    created = await writer.converge(SECRETS, secret("replaced", a="YQ=="), None)
    assert created is not None
    await writer.delete(SECRETS, created)
    await writer.converge(SECRETS, secret("replaced", a="YQ=="), None)
    with pytest.raises(TryAgainError):
        await writer.converge(SECRETS, secret("replaced", a="Yg=="), created)


async def test_a_foreign_object_is_not_taken_over(client: Client) -> None:
    foreign = {"metadata": {"name": "foreign", "namespace": "default"}, "data": {"a": "YQ=="}}
    await client.create(SECRETS, foreign, namespace="default")
    with pytest.raises(NotOursError):
        await Writer(client, "test-writer").converge(SECRETS, secret("foreign", a="Yg=="), None)
    assert (await client.get(SECRETS, "foreign", "default")).data == {"a": "YQ=="}


async def test_a_whole_status_settles(client: Client) -> None:
    writer = Writer(client, "test-writer")
    desired = {
        "metadata": {"name": "settling"},
        "spec": {"generalGroup": "gpustack-amd", "os": "linux", "arch": "amd64", "localStorage": "100Gi"},
    }
    created = await writer.converge(INSTANCE_TYPES, desired, None)
    assert created is not None
    status = {"phase": "Active", "phaseMessage": "first"}
    changed = await writer.converge_status(INSTANCE_TYPES, status, created)
    assert changed is not None
    assert await writer.converge_status(INSTANCE_TYPES, status, changed) is None
    shorter = await writer.converge_status(INSTANCE_TYPES, {"phase": "Active"}, changed)
    assert shorter is not None
    assert shorter.status == {"phase": "Active"}


async def test_our_finalizer_comes_and_goes_and_others_stay(client: Client) -> None:
    body = {"metadata": {"name": "held", "namespace": "default", "finalizers": ["example.com/other"]}}
    seen = await client.create(CONFIG_MAPS, body, namespace="default")
    held = await add_finalizer(client, CONFIG_MAPS, seen, OURS)
    assert held is not None
    assert held.metadata.finalizers == ("example.com/other", OURS)
    await client.merge_patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": [OURS, "x.io/y"]}}, namespace="default")
    left = await remove_finalizer(client, CONFIG_MAPS, held, OURS)
    assert left is not None
    assert left.metadata.finalizers == ("x.io/y",)


async def test_the_first_finalizer_of_an_object_and_the_last(client: Client) -> None:
    seen = await client.create(CONFIG_MAPS, {"metadata": {"name": "bare", "namespace": "default"}}, namespace="default")
    held = await add_finalizer(client, CONFIG_MAPS, seen, OURS)
    assert held is not None
    await client.delete(CONFIG_MAPS, "bare", "default")
    await remove_finalizer(client, CONFIG_MAPS, held, OURS)
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, "bare", "default")


async def test_events_are_accepted_whatever_they_are_about(client: Client, namespace: str) -> None:
    node = await client.create(NODES, {"metadata": {"name": "n" * 253}})
    recorder = Recorder(client, controller="gpustack.ai/" + "o" * 80, instance="h" * 60 + "." + "x" * 100)
    stop = asyncio.Event()
    recorder.event(node, "Warning", "Broken" * 50, "ü" * 2000, action="Repair" * 50, resource=NODES)
    recorder.event(node, "Warning", "Counted", "again", action="Count", resource=NODES)
    recorder.event(ObjectReference("v1", "Secret", "seen", namespace), "Normal", "Seen", "seen", action="See")
    running_recorder = asyncio.create_task(recorder.run(stop))
    await settle()
    recorder.event(node, "Warning", "Counted", "again", action="Count", resource=NODES)
    stop.set()
    await running_recorder
    about_node = [event for event in await client.list(EVENTS, "default") if event.name.startswith("nnnn")]
    about_secret = await client.list(EVENTS, namespace)
    assert (len(about_node), len(about_secret)) == (2, 1)


async def test_a_lease_is_taken_renewed_and_given_back(client: Client, namespace: str) -> None:
    options = ElectionOptions(namespace, "lead", "me", duration=3, renew_deadline=2, retry=0.2)
    losses: list[str] = []
    elector = Elector(client, options, lost=lambda: losses.append("lost"))
    await asyncio.wait_for(elector.acquire(), 10)
    taken = (await client.get(LEASES, "lead", namespace)).spec
    answered = asyncio.Event()
    client.on_write(lambda _write: lambda _answer: answered.set())
    holding = asyncio.create_task(elector.hold())
    await asyncio.wait_for(answered.wait(), 10)
    holding.cancel()
    renewed = (await client.get(LEASES, "lead", namespace)).spec
    assert (renewed.acquire_time, renewed.renew_time != taken.renew_time) == (taken.acquire_time, True)
    await elector.release()
    released = (await client.get(LEASES, "lead", namespace)).spec
    assert (taken.holder_identity, released.holder_identity, elector.problem, losses) == ("me", "", None, [])
