from __future__ import annotations

import asyncio

from prometheus_client import CollectorRegistry

from gpustack_op.runtime.cache import Caches, Selector
from gpustack_op.runtime.cache_metrics import CacheCollector
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.sizes import approximate_bytes
from tests.runtime.apiserver import ApiServer, added, deleted, modified, whole_list
from tests.runtime.things import GADGET_PATH, GADGETS, IN_A, PATH, THINGS, Heard, thing

ON_N1 = Selector(fields="spec.nodeName=n1")


async def test_everybody_who_asks_for_the_same_gets_the_same(api: ApiServer, caches: Caches) -> None:
    one, two = caches.informer(THINGS, ON_N1), caches.informer(THINGS, Selector(fields="spec.nodeName=n1"))
    other = caches.informer(THINGS)
    assert one is two
    assert other is not one
    seen = await api.until(2, "stream")
    assert sorted(one.query.get("fieldSelector", "") for one in seen) == ["", "spec.nodeName=n1"]


async def test_a_namespace_narrows_what_is_asked_for(api: ApiServer, caches: Caches) -> None:
    caches.informer(THINGS, Selector(namespace="a"))
    (seen,) = await api.until(1, "stream")
    assert seen.path == IN_A


async def test_it_ends_when_the_last_one_has_released_it(api: ApiServer, caches: Caches) -> None:
    stream = api.stream(PATH, whole_list(100, thing("one", 90)))
    informer, heard = caches.informer(THINGS), Heard()
    caches.informer(THINGS).add_handler(heard)
    await heard.count(1)
    informer.release()
    stream.send(added(thing("two", 101)))
    await heard.count(2)
    informer.release()
    assert caches.informers() == []
    assert caches.informer(THINGS) is not informer
    await api.until(2, "stream")


async def test_an_informer_made_before_the_caches_run_starts_with_them(api: ApiServer, client: Client) -> None:
    api.stream(PATH, whole_list(100, thing("one", 90)))
    caches = Caches(client, freeze=lambda: None)
    informer = caches.informer(THINGS)
    running = asyncio.create_task(caches.run())
    await asyncio.wait_for(informer.wait_synced(), 10)
    running.cancel()
    await asyncio.wait([running])
    assert informer.synced


async def test_indexes_follow_every_change(api: ApiServer, caches: Caches) -> None:
    stream = api.stream(PATH, whole_list(100, thing("one", 90, nodeName="n1"), thing("two", 91, nodeName="n2")))
    informer, heard = caches.informer(THINGS), Heard()
    informer.add_index("early", lambda obj: [obj.spec.node_name])
    informer.add_handler(heard)
    await heard.count(2)
    informer.add_index("late", lambda obj: [obj.spec.node_name])
    stream.send(modified(thing("one", 101, nodeName="n2")), deleted(thing("two", 102)))
    await heard.count(4)
    assert [obj.name for obj in informer.by_index("early", "n2")] == ["one"]
    assert [obj.name for obj in informer.by_index("late", "n2")] == ["one"]
    assert informer.by_index("early", "n1") == []


async def test_an_index_that_raises_for_one_object_leaves_the_others(api: ApiServer, caches: Caches) -> None:
    api.stream(PATH, whole_list(100, thing("one", 90), thing("two", 91, parts=["x"])))
    informer = caches.informer(THINGS)
    informer.add_index("first part", lambda obj: [obj.spec.parts[0]])
    await asyncio.wait_for(informer.wait_synced(), 10)
    assert [obj.name for obj in informer.by_index("first part", "x")] == ["two"]
    assert len(informer.all()) == 2


async def test_objects_are_found_by_namespace(api: ApiServer, caches: Caches) -> None:
    api.stream(PATH, whole_list(100, thing("one", 90), thing("one", 91, namespace="b"), thing("two", 92)))
    informer = caches.informer(THINGS)
    await asyncio.wait_for(informer.wait_synced(), 10)
    assert [obj.name for obj in informer.all("a")] == ["one", "two"]
    assert [obj.namespace for obj in informer.all("b")] == ["b"]
    assert informer.all("c") == []
    assert informer.get("one") is None


async def test_the_heap_is_frozen_once_when_everything_has_synced(api: ApiServer, client: Client) -> None:
    api.stream(PATH, whole_list(100))
    slow = api.stream(GADGET_PATH)
    frozen: list[int] = []
    caches = Caches(client, freeze=lambda: frozen.append(1))
    things, gadgets = caches.informer(THINGS), caches.informer(GADGETS)
    caches.start()
    await asyncio.wait_for(things.wait_synced(), 10)
    assert frozen == []
    slow.send(whole_list(100))
    await asyncio.wait_for(gadgets.wait_synced(), 10)
    assert frozen == [1]
    api.stream(IN_A, whole_list(100))
    await asyncio.wait_for(caches.informer(THINGS, Selector(namespace="a")).wait_synced(), 10)
    assert frozen == [1]
    await caches.stop()


async def test_objects_and_bytes_are_shown_for_each_kind(api: ApiServer, caches: Caches) -> None:
    registry = CollectorRegistry()
    registry.register(CacheCollector(caches))
    api.stream(PATH, whole_list(100, thing("one", 90), thing("bad", 91, size="none")))
    api.stream(IN_A, whole_list(100, thing("one", 90)))
    caches.informer(THINGS)
    caches.informer(THINGS, Selector(namespace="a"))
    caches.informer(GADGETS)
    await asyncio.gather(*(one.wait_synced() for one in caches.informers() if one.resource is THINGS))
    things, gadgets = {"group": "example.com", "kind": "Thing"}, {"group": "example.com", "kind": "Gadget"}
    assert registry.get_sample_value("gpustack_cache_objects", things) == 2
    assert registry.get_sample_value("gpustack_cache_synced", things) == 1
    assert registry.get_sample_value("gpustack_cache_undecodable_total", things) == 1
    assert (registry.get_sample_value("gpustack_cache_bytes", things) or 0) > 500
    assert registry.get_sample_value("gpustack_cache_bytes", gadgets) == 0
    assert registry.get_sample_value("gpustack_cache_synced", gadgets) == 0


def test_bytes_are_judged_by_a_sample() -> None:
    few, many = ["x" * 1000 + str(n) for n in range(10)], ["x" * 1000 + str(n) for n in range(100_000)]
    assert 10_000 < approximate_bytes(few) < 12_000
    assert 100_000_000 < approximate_bytes(many) < 110_000_000
    assert approximate_bytes([]) == 0
