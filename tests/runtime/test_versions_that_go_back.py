"""After a restore of the server's store its versions count from an earlier point again."""

from __future__ import annotations

import asyncio

from structlog.testing import capture_logs

from gpustack_op.runtime.cache import Caches, Informer
from gpustack_op.runtime.client import Client
from tests.runtime.apiserver import ApiServer, Reply, added, as_json, bookmark, expired, modified, whole_list
from tests.runtime.things import GADGET_PATH, GADGETS, IN_A, PATH, THINGS, Heard, Thing, thing


async def both(api: ApiServer, caches: Caches) -> tuple[Informer[Thing], Informer[Thing]]:
    """Two kinds that have synced at version 1000, and will list anew at 500."""
    api.stream(GADGET_PATH, whole_list(1000, thing("other", 900)))
    api.stream(GADGET_PATH, whole_list(500, thing("other", 400)))
    things, gadgets = caches.informer(THINGS), caches.informer(GADGETS)
    await asyncio.wait_for(caches.wait_synced(), 10)
    return things, gadgets


async def listed_anew(things: Informer[Thing], gadgets: Informer[Thing]) -> None:
    heard = Heard()
    things.add_handler(heard)
    gadgets.add_handler(heard)
    await heard.until(lambda: "one@450" in versions(things) and "other@400" in versions(gadgets))


def versions(informer: Informer[Thing]) -> list[str]:
    return [f"{obj.name}@{obj.metadata.resource_version}" for obj in informer.all()]


async def test_a_bookmark_that_goes_back_lists_every_kind_anew(api: ApiServer, caches: Caches) -> None:
    first = api.stream(PATH, whole_list(1000, thing("one", 900), thing("lost", 990)))
    api.stream(PATH, whole_list(501, thing("one", 450)))
    things, gadgets = await both(api, caches)
    with capture_logs() as logs:
        first.send(bookmark(480))
        await listed_anew(things, gadgets)
    assert versions(things) == ["one@450"]
    assert [line["event"] for line in logs] == ["cache.versions_went_back"]


async def test_an_event_that_goes_back_lists_every_kind_anew(api: ApiServer, caches: Caches) -> None:
    first = api.stream(PATH, whole_list(1000, thing("one", 900)))
    api.stream(PATH, whole_list(501, thing("one", 450)))
    things, gadgets = await both(api, caches)
    first.send(added(thing("new", 480)))
    await listed_anew(things, gadgets)
    assert versions(things) == ["one@450"]


async def test_a_list_that_goes_back_lists_every_kind_anew(api: ApiServer, caches: Caches) -> None:
    first = api.stream(PATH, whole_list(1000, thing("one", 900)))
    api.stream(PATH, whole_list(501, thing("one", 450)), whole_list(501))
    api.stream(PATH, whole_list(502, thing("one", 450)))
    things, gadgets = await both(api, caches)
    first.send(expired())
    await listed_anew(things, gadgets)


async def test_an_own_write_that_goes_back_lists_every_kind_anew(
    api: ApiServer, caches: Caches, client: Client
) -> None:
    api.stream(PATH, whole_list(1000, thing("one", 900)))
    api.stream(PATH, whole_list(501, thing("one", 450)))
    api.script("patch", f"{IN_A}/one", Reply(body=thing("one", 450)))
    things, gadgets = await both(api, caches)
    await client.merge_patch(THINGS, "one", {"spec": {"size": 3}}, namespace="a")
    await listed_anew(things, gadgets)


async def test_a_create_that_goes_back_lists_every_kind_anew(api: ApiServer, caches: Caches, client: Client) -> None:
    api.stream(PATH, whole_list(1000))
    api.stream(PATH, whole_list(501, thing("one", 450)))
    api.script("post", IN_A, Reply(201, thing("one", 450)))
    things, gadgets = await both(api, caches)
    await client.create(THINGS, {"metadata": {"name": "one", "namespace": "a"}})
    await listed_anew(things, gadgets)


async def test_what_was_written_before_the_restore_does_not_outlive_it(
    api: ApiServer, caches: Caches, client: Client
) -> None:
    first = api.stream(PATH, whole_list(1000, thing("one", 900)))
    api.stream(PATH, whole_list(501, thing("one", 450)))
    api.script("patch", f"{IN_A}/one", Reply(body=thing("one", 1001)))
    things, gadgets = await both(api, caches)
    await client.merge_patch(THINGS, "one", {"spec": {"size": 3}}, namespace="a")
    first.send(bookmark(480))
    await listed_anew(things, gadgets)
    assert versions(things) == ["one@450"]


async def test_a_write_that_changes_nothing_is_no_sign_of_a_restore(
    api: ApiServer, caches: Caches, client: Client
) -> None:
    stream = api.stream(PATH, whole_list(1000, thing("one", 900)))
    api.script("patch", f"{IN_A}/one", Reply(body=thing("one", 900)))
    informer, heard = caches.informer(THINGS), Heard()
    informer.add_handler(heard)
    await asyncio.wait_for(informer.wait_synced(), 10)
    await client.merge_patch(THINGS, "one", {"spec": {"size": 3}}, namespace="a")
    stream.send(modified(thing("one", 1001)))
    await heard.count(2)
    assert len(api.of("stream", "list")) == 1


async def test_an_answer_that_the_watch_overtook_is_no_sign_of_a_restore(
    api: ApiServer, caches: Caches, client: Client
) -> None:
    stream = api.stream(PATH, whole_list(1000, thing("one", 900)))
    informer, heard = caches.informer(THINGS), Heard()
    informer.add_handler(heard)
    await asyncio.wait_for(informer.wait_synced(), 10)
    answer = api.stream(f"{IN_A}/one", verb="patch")
    writing = asyncio.create_task(client.merge_patch(THINGS, "one", {"spec": {"size": 3}}, namespace="a"))
    await answer.opened.wait()
    stream.send(modified(thing("one", 1001)), modified(thing("one", 1002)))
    await heard.count(3)
    answer.send(as_json(thing("one", 1001))).close()
    await writing
    stream.send(modified(thing("one", 1003)))
    await heard.count(4)
    assert heard.told[1:] == [("one@900", "one@1001"), ("one@1001", "one@1002"), ("one@1002", "one@1003")]
    assert len(api.of("stream", "list")) == 1
