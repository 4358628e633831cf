from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from gpustack_op.runtime.cache import Caches
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.reflector import Timing
from tests.runtime.apiserver import ApiServer, Hang, bookmark, modified, whole_list
from tests.runtime.things import PATH, THINGS, Heard, Naps, thing


async def running(client: Client, naps: Naps, timing: Timing) -> AsyncIterator[Caches]:
    made = Caches(client, timing=timing, sleep=naps, freeze=lambda: None)
    made.start()
    yield made
    await made.stop()


@pytest.fixture
async def impatient(client: Client, naps: Naps) -> AsyncIterator[Caches]:
    """Caches that take a tenth of a second without a byte for a dead connection."""
    async for made in running(client, naps, Timing(silence=0.1, steady=0.01)):
        yield made


@pytest.fixture
async def short(client: Client, naps: Naps) -> AsyncIterator[Caches]:
    """Caches whose watches should end after a tenth of a second, and are given up as soon."""
    async for made in running(client, naps, Timing(shortest_watch=0.1, longest_watch=0.1, slack=0.05, steady=0.01)):
        yield made


async def test_a_connection_that_falls_silent_is_given_up_and_the_change_is_seen(
    api: ApiServer, impatient: Caches
) -> None:
    api.stream(PATH, whole_list(500, thing("one", 7)), modified(thing("one", 501)))
    api.stream(PATH, modified(thing("one", 502)), verb="watch")
    heard = Heard()
    impatient.informer(THINGS).add_handler(heard)
    await heard.count(3)
    assert heard.told == [(None, "one@7"), ("one@7", "one@501"), ("one@501", "one@502")]
    assert api.of("watch")[0].query["resourceVersion"] == "501"


async def test_a_watch_that_never_said_anything_is_followed_by_a_list(api: ApiServer, impatient: Caches) -> None:
    api.stream(PATH, whole_list(500, thing("one", 7))).cut()
    api.stream(PATH, verb="watch")
    api.stream(PATH, whole_list(600, thing("one", 550)))
    heard = Heard()
    impatient.informer(THINGS).add_handler(heard)
    await heard.count(2)
    assert [seen.verb for seen in api.seen][:3] == ["stream", "watch", "stream"]


async def test_bookmarks_keep_a_quiet_watch_alive(api: ApiServer, impatient: Caches) -> None:
    stream = api.stream(PATH, whole_list(500, thing("one", 7)))
    heard = Heard()
    impatient.informer(THINGS).add_handler(heard)
    for version in range(501, 511):
        await asyncio.sleep(0.03)
        stream.send(bookmark(version))
    stream.send(modified(thing("one", 511)))
    await heard.count(2)
    assert len(api.seen) == 1


async def test_a_watch_that_outlasts_what_was_asked_for_is_ended_by_the_reader(api: ApiServer, short: Caches) -> None:
    stream = api.stream(PATH, whole_list(500, thing("one", 7)))
    short.informer(THINGS)
    async with asyncio.timeout(10):
        for version in range(501, 10_000):
            stream.send(bookmark(version))
            await asyncio.sleep(0.01)
            if api.of("watch"):
                break
    assert int(api.of("watch")[0].query["resourceVersion"]) > 500


async def test_a_request_that_is_never_answered_is_asked_again(api: ApiServer, impatient: Caches) -> None:
    api.script("stream", PATH, Hang())
    api.stream(PATH, whole_list(500, thing("one", 7)))
    await asyncio.wait_for(impatient.informer(THINGS).wait_synced(), 10)
