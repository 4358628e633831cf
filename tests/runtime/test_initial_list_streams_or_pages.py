from __future__ import annotations

import asyncio

import pytest

from gpustack_op.runtime.cache import Caches
from tests.runtime.apiserver import ApiServer, Reply, added, bookmark, page, status, whole_list
from tests.runtime.things import PATH, THINGS, Heard, thing


async def test_the_list_is_streamed_and_the_same_connection_goes_on_as_the_watch(
    api: ApiServer, caches: Caches
) -> None:
    stream = api.stream(PATH, whole_list(500, thing("one", 7), thing("two", 9)))
    informer = caches.informer(THINGS)
    heard = Heard()
    informer.add_handler(heard)
    await informer.wait_synced()
    stream.send(added(thing("three", 501)))
    await heard.count(3)
    assert heard.told == [(None, "one@7"), (None, "two@9"), (None, "three@501")]
    assert [change.initial for change in heard.changes] == [True, True, False]
    assert [seen.verb for seen in api.seen] == ["stream"]


async def test_the_server_is_asked_for_bookmarks_and_an_end_between_five_and_ten_minutes(
    api: ApiServer, caches: Caches
) -> None:
    caches.informer(THINGS)
    (seen,) = await api.until(1, "stream")
    assert seen.query["allowWatchBookmarks"] == "true"
    assert seen.query["resourceVersionMatch"] == "NotOlderThan"
    assert "resourceVersion" not in seen.query
    assert 300 <= int(seen.query["timeoutSeconds"]) <= 600


async def test_nothing_is_synced_before_the_list_is_whole(api: ApiServer, caches: Caches) -> None:
    stream = api.stream(PATH, added(thing("one", 7)))
    informer = caches.informer(THINGS)
    await stream.opened.wait()
    assert not informer.synced
    assert caches.unsynced() == ["things.example.com"]
    stream.send(bookmark(500, ends_list=True))
    await asyncio.wait_for(caches.wait_synced(), 10)
    assert caches.unsynced() == []


async def test_synced_only_when_every_handler_has_seen_everything(api: ApiServer, caches: Caches) -> None:
    api.stream(PATH, whole_list(5000, *(thing(f"t{i}", i) for i in range(1000))))
    informer = caches.informer(THINGS)
    synced_at: list[bool] = []
    informer.add_handler(lambda _change: synced_at.append(informer.synced))
    await asyncio.wait_for(informer.wait_synced(), 10)
    assert synced_at == [False] * 1000


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(Reply(400, status(400, "BadRequest")), id="bad request"),
        pytest.param(Reply(422, status(422, "Invalid", "sendInitialEvents: Forbidden")), id="invalid"),
    ],
)
async def test_a_server_that_does_not_stream_is_asked_for_pages(api: ApiServer, caches: Caches, refusal: Reply) -> None:
    api.script("stream", PATH, refusal)
    api.script("list", PATH, Reply(body=page(500, thing("one", 7), continuation="more")))
    api.script("list", PATH, Reply(body=page(500, thing("two", 9))))
    informer = caches.informer(THINGS)
    await asyncio.wait_for(informer.wait_synced(), 10)
    await api.until(1, "watch")
    assert sorted(obj.name for obj in informer.all()) == ["one", "two"]
    assert [seen.query.get("continue") for seen in api.of("list")] == [None, "more"]
    assert {seen.query["limit"] for seen in api.of("list")} == {"500"}
    assert api.of("watch")[0].query["resourceVersion"] == "500"


async def test_a_server_that_ignores_the_wish_for_a_list_is_asked_for_pages(api: ApiServer, caches: Caches) -> None:
    api.stream(PATH, added(thing("one", 7)), bookmark(500))
    api.script("list", PATH, Reply(body=page(501, thing("one", 7))))
    informer = caches.informer(THINGS)
    await asyncio.wait_for(informer.wait_synced(), 10)
    assert [seen.verb for seen in api.seen][:2] == ["stream", "list"]


async def test_a_streamed_list_that_breaks_off_is_followed_by_pages(api: ApiServer, caches: Caches) -> None:
    api.stream(PATH, added(thing("one", 7), thing("gone", 8))).cut()
    api.script("list", PATH, Reply(body=page(501, thing("one", 7))))
    informer = caches.informer(THINGS)
    await asyncio.wait_for(informer.wait_synced(), 10)
    assert [obj.name for obj in informer.all()] == ["one"]


async def test_pages_that_expire_half_way_begin_anew(api: ApiServer, caches: Caches) -> None:
    api.script("stream", PATH, Reply(400, status(400, "BadRequest")))
    api.script("list", PATH, Reply(body=page(500, thing("gone", 7), continuation="more")))
    api.script("list", PATH, Reply(410, status(410, "Expired")))
    api.script("list", PATH, Reply(body=page(600, thing("one", 8))))
    informer = caches.informer(THINGS)
    await asyncio.wait_for(informer.wait_synced(), 10)
    assert [obj.name for obj in informer.all()] == ["one"]
    assert [seen.query.get("continue") for seen in api.of("list")] == [None, "more", None]
