from __future__ import annotations

import asyncio

from structlog.testing import capture_logs

from gpustack_op.runtime.cache import Caches, Change
from tests.runtime.apiserver import ApiServer, deleted, expired, whole_list
from tests.runtime.things import PATH, THINGS, Heard, Thing, thing


async def test_an_object_that_went_while_nobody_watched_is_told_with_its_last_known_state(
    api: ApiServer, caches: Caches
) -> None:
    api.stream(PATH, whole_list(100, thing("one", 90, size=3), thing("two", 91)), expired())
    api.stream(PATH, whole_list(500, thing("two", 91)))
    informer, heard = caches.informer(THINGS), Heard()
    informer.add_handler(heard)
    await heard.count(3)
    assert heard.told == [(None, "one@90"), (None, "two@91"), ("one@90", None)]
    assert heard.changes[2].object.spec.size == 3
    assert informer.get("one", "a") is None


async def test_a_deletion_that_the_watch_tells_is_handed_on(api: ApiServer, caches: Caches) -> None:
    api.stream(PATH, whole_list(100, thing("one", 90)), deleted(thing("one", 101)))
    informer, heard = caches.informer(THINGS), Heard()
    informer.add_handler(heard)
    await heard.count(2)
    assert heard.told == [(None, "one@90"), ("one@90", None)]
    assert informer.all() == []


async def test_a_handler_that_raises_is_logged_and_stops_neither_the_informer_nor_others(
    api: ApiServer, caches: Caches
) -> None:
    def broken(change: Change[Thing]) -> None:
        raise RuntimeError("on purpose")

    api.stream(PATH, whole_list(100, thing("one", 90), thing("two", 91)), expired())
    api.stream(PATH, whole_list(500, thing("two", 501)))
    informer, heard = caches.informer(THINGS), Heard()
    informer.add_handler(broken)
    informer.add_handler(heard)
    with capture_logs() as logs:
        await heard.count(4)
    assert heard.told == [(None, "one@90"), (None, "two@91"), ("two@91", "two@501"), ("one@90", None)]
    assert [(line["event"], line["name"]) for line in logs] == [
        ("handler.failed", "one"),
        ("handler.failed", "two"),
        ("handler.failed", "two"),
        ("handler.failed", "one"),
    ]


async def test_a_late_handler_is_told_of_what_is_there(api: ApiServer, caches: Caches) -> None:
    stream = api.stream(PATH, whole_list(100, thing("one", 90)))
    informer, heard = caches.informer(THINGS), Heard()
    await asyncio.wait_for(informer.wait_synced(), 10)
    informer.add_handler(heard)
    stream.send(deleted(thing("one", 101)))
    await heard.count(2)
    assert heard.told == [(None, "one@90"), ("one@90", None)]
    assert [change.initial for change in heard.changes] == [True, False]
