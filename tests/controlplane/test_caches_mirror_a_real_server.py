"""What client and caches take for granted of an API server, asked of a real one."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest

from gpustack_op.api.core import NAMESPACES, SECRETS
from gpustack_op.api.meta import KubeObject, PartialObject, Resource
from gpustack_op.runtime.cache import Caches, Selector
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.errors import AlreadyExists, Conflict, NotFound
from tests.runtime.things import eventually

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", PartialObject, namespaced=True)
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", PartialObject)


def version_of(obj: KubeObject | None) -> str | None:
    return None if obj is None else obj.metadata.resource_version


@pytest.fixture
async def caches(client: Client) -> AsyncIterator[Caches]:
    made = Caches(client, freeze=lambda: None)
    made.start()
    yield made
    await made.stop()


async def test_a_streamed_list_and_the_watch_after_it(client: Client, caches: Caches, namespace: str) -> None:
    body = {"metadata": {"name": "one", "namespace": namespace, "labels": {"a": "b"}}}
    created = await client.create(CONFIG_MAPS, body)
    informer = caches.informer(CONFIG_MAPS, Selector(namespace=namespace))
    await asyncio.wait_for(informer.wait_synced(), 30)
    assert informer.get("one", namespace) == created
    # Not through `client`, so that only the watch can tell of it.
    path = f"/api/v1/namespaces/{namespace}/configmaps/one"
    await client.raw("DELETE", path)
    await eventually(lambda: informer.get("one", namespace) is None)


async def test_pages_of_a_list_are_one_moment(client: Client, namespace: str) -> None:
    await asyncio.gather(
        *(
            client.create(CONFIG_MAPS, {"metadata": {"name": f"c{number}", "namespace": namespace}})
            for number in range(501)
        )
    )
    found = await client.list(CONFIG_MAPS, namespace, selector=Selector(fields="metadata.name!=kube-root-ca.crt"))
    assert len(found) == 501


async def test_own_writes_are_in_the_cache_and_stay_what_they_are(
    client: Client, caches: Caches, namespace: str
) -> None:
    informer = caches.informer(SECRETS, Selector(labels="use in (yes,perhaps)", namespace=namespace))
    await asyncio.wait_for(informer.wait_synced(), 30)
    body = {"metadata": {"name": "one", "namespace": namespace, "labels": {"use": "yes"}}}
    versions: list[tuple[str | None, str | None]] = []
    informer.add_handler(lambda change: versions.append((version_of(change.old), version_of(change.new))))
    first = await client.create(SECRETS, body)
    assert informer.get("one", namespace) == first
    second = await client.apply(SECRETS, {**body, "data": {"a": "YQ=="}}, field_manager="test")
    assert informer.get("one", namespace) == second
    unchanged = await client.apply(SECRETS, {**body, "data": {"a": "YQ=="}}, field_manager="test")
    assert unchanged == second
    await client.merge_patch(SECRETS, "one", {"metadata": {"labels": {"use": "no"}}}, namespace=namespace)
    assert informer.get("one", namespace) is None
    third = await client.merge_patch(SECRETS, "one", {"metadata": {"labels": {"use": "yes"}}}, namespace=namespace)
    assert informer.get("one", namespace) == third
    await client.delete(SECRETS, "one", namespace, uid=first.uid)
    assert informer.get("one", namespace) is None
    marker = await client.create(SECRETS, {**body, "metadata": {**body["metadata"], "name": "marker"}})
    await eventually(lambda: (informer.processed or 0) >= int(marker.metadata.resource_version))
    one, two, three = (obj.metadata.resource_version for obj in (first, second, third))
    assert versions == [
        (None, one),
        (one, two),
        (two, None),
        (None, three),
        (three, None),
        (None, marker.metadata.resource_version),
    ]


async def test_an_ending_namespace_is_shown_as_such(client: Client, caches: Caches) -> None:
    informer = caches.informer(NAMESPACES)
    await asyncio.wait_for(informer.wait_synced(), 30)
    name = f"test-{uuid.uuid4().hex[:12]}"
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    await client.delete(NAMESPACES, name)
    ending = informer.get(name)
    assert ending is not None
    assert ending.deleting


async def test_preconditions_and_names_taken_are_conflicts(client: Client, namespace: str) -> None:
    body = {"metadata": {"name": "one", "namespace": namespace}}
    await client.create(CONFIG_MAPS, body)
    with pytest.raises(AlreadyExists) as taken:
        await client.create(CONFIG_MAPS, body)
    assert not taken.value.perhaps_ours
    with pytest.raises(Conflict):
        await client.delete(CONFIG_MAPS, "one", namespace, uid="another")
    with pytest.raises(NotFound) as missing:
        await client.delete(CONFIG_MAPS, "two", namespace)
    assert missing.value.names_object


async def test_a_kind_whose_definition_comes_later_syncs_by_itself(client: Client, caches: Caches) -> None:
    plural = f"late{uuid.uuid4().hex[:8]}"
    late = Resource("test.example.com", "v1", plural, "Late", PartialObject)
    informer = caches.informer(late)
    await eventually(lambda: informer.missing)
    assert caches.missing() == [late]
    with pytest.raises(NotFound) as missing:
        await client.get(late, "one")
    assert not missing.value.names_object
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    names = {"plural": plural, "singular": plural, "kind": "Late", "listKind": "LateList"}
    spec = {"group": late.group, "scope": "Cluster", "names": names, "versions": [version]}
    await client.create(CRDS, {"metadata": {"name": late.full_name}, "spec": spec})
    await asyncio.wait_for(informer.wait_synced(), 30)
    assert not informer.missing
    created = await client.create(late, {"metadata": {"name": "one"}})
    assert informer.all() == [created]
    await client.delete(CRDS, late.full_name)
