from __future__ import annotations

import asyncio

from structlog.testing import capture_logs

from gpustack_op.runtime.cache import Caches
from tests.runtime.apiserver import ApiServer, Reply, added, deleted, expired, modified, page, status, whole_list
from tests.runtime.things import PATH, THINGS, Heard, thing

BROKEN = "a size that is no number"


async def test_it_is_counted_logged_once_and_the_stream_goes_on(api: ApiServer, caches: Caches) -> None:
    api.stream(
        PATH,
        whole_list(500, thing("one", 7)),
        modified(thing("one", 501, size=BROKEN)),
        modified(thing("one", 502, size=BROKEN)),
        added(thing("two", 503)),
    )
    informer, heard = caches.informer(THINGS), Heard()
    informer.add_handler(heard)
    with capture_logs() as logs:
        await heard.count(2)
    assert heard.told == [(None, "one@7"), (None, "two@503")]
    assert informer.undecodable_count == 2
    assert [(line["event"], line["namespace"], line["name"]) for line in logs] == [("object.undecodable", "a", "one")]
    assert BROKEN not in str(logs)
    assert len(api.seen) == 1


async def test_its_last_readable_state_stays_until_it_can_be_read_again(api: ApiServer, caches: Caches) -> None:
    api.stream(
        PATH,
        whole_list(500, thing("one", 7)),
        modified(thing("one", 501, size=BROKEN)),
        modified(thing("one", 502, size=3)),
    )
    heard = Heard()
    caches.informer(THINGS).add_handler(heard)
    await heard.count(2)
    assert heard.told == [(None, "one@7"), ("one@7", "one@502")]


async def test_a_relist_in_which_it_cannot_be_read_does_not_delete_it(api: ApiServer, caches: Caches) -> None:
    api.stream(PATH, whole_list(500, thing("one", 7)), expired())
    api.stream(PATH, whole_list(600, thing("one", 550, size=BROKEN), thing("two", 560)))
    informer, heard = caches.informer(THINGS), Heard()
    informer.add_handler(heard)
    await heard.count(2)
    assert heard.told == [(None, "one@7"), (None, "two@560")]
    assert informer.get("one", "a") is not None


async def test_its_deletion_is_told_although_it_cannot_be_read(api: ApiServer, caches: Caches) -> None:
    api.stream(PATH, whole_list(500, thing("one", 7)), deleted(thing("one", 501, size=BROKEN)))
    heard = Heard()
    caches.informer(THINGS).add_handler(heard)
    await heard.count(2)
    assert heard.told == [(None, "one@7"), ("one@7", None)]


async def test_one_in_a_page_leaves_the_others(api: ApiServer, caches: Caches) -> None:
    api.script("stream", PATH, Reply(400, status(400, "BadRequest")))
    items = [thing("one", 7), thing("bad", 8, size=BROKEN), thing("two", 9)]
    api.script("list", PATH, Reply(body=page(500, *items)))
    informer = caches.informer(THINGS)
    await asyncio.wait_for(informer.wait_synced(), 10)
    assert [obj.name for obj in informer.all()] == ["one", "two"]
    assert informer.undecodable_count == 1
