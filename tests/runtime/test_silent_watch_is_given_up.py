from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gpustack_op.runtime.cache import Caches
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.reflector import Timing
from tests.runtime.apiserver import ApiServer, Hang, bookmark, modified, whole_list
from tests.runtime.things import PATH, THINGS, Heard, LoopClock, Naps, eventually, thing


@pytest.fixture
async def clock() -> LoopClock:
    return LoopClock()


async def test_a_connection_that_falls_silent_is_given_up_and_the_change_is_seen(
    api: ApiServer, caches: Caches, clock: LoopClock
) -> None:
    api.stream(PATH, whole_list(500, thing("one", 7)), modified(thing("one", 501)))
    api.stream(PATH, modified(thing("one", 502)), verb="watch")
    heard = Heard()
    caches.informer(THINGS).add_handler(heard)
    await heard.count(2)
    clock.jump(131)
    await heard.count(3)
    assert heard.told == [(None, "one@7"), ("one@7", "one@501"), ("one@501", "one@502")]
    assert api.of("watch")[0].query["resourceVersion"] == "501"


async def test_a_watch_that_never_said_anything_is_followed_by_a_list(
    api: ApiServer, caches: Caches, clock: LoopClock, exchanges: list[tuple[str, str, str]]
) -> None:
    api.stream(PATH, whole_list(500, thing("one", 7))).cut()
    api.stream(PATH, verb="watch")
    api.stream(PATH, whole_list(600, thing("one", 550)))
    heard = Heard()
    caches.informer(THINGS).add_handler(heard)
    await eventually(lambda: len(exchanges) == 2)
    clock.jump(131)
    await heard.count(2)
    assert [seen.verb for seen in api.seen] == ["stream", "watch", "stream"]


async def test_bookmarks_keep_a_quiet_watch_alive(api: ApiServer, caches: Caches, clock: LoopClock) -> None:
    stream = api.stream(PATH, whole_list(500, thing("one", 7)))
    informer, heard = caches.informer(THINGS), Heard()
    informer.add_handler(heard)
    await heard.count(1)
    for version in (501, 502, 503, 504):
        clock.jump(70)
        stream.send(bookmark(version))
        await eventually(lambda version=version: informer.processed == version)  # type: ignore[misc]
    stream.send(modified(thing("one", 511)))
    await heard.count(2)
    assert len(api.seen) == 1


@pytest.fixture
async def patient(client: Client, naps: Naps) -> AsyncIterator[Caches]:
    """Caches that mind no silence."""
    made = Caches(client, timing=Timing(silence=10_000), sleep=naps, freeze=lambda: None)
    made.start()
    yield made
    await made.stop()


async def test_a_watch_that_outlasts_what_was_asked_for_is_ended_by_the_reader(
    api: ApiServer, patient: Caches, clock: LoopClock
) -> None:
    api.stream(PATH, whole_list(500, thing("one", 7)), modified(thing("one", 501)))
    heard = Heard()
    patient.informer(THINGS).add_handler(heard)
    await heard.count(2)
    clock.jump(616)
    (watch,) = await api.until(1, "watch")
    assert watch.query["resourceVersion"] == "501"


async def test_a_request_that_is_never_answered_is_asked_again(
    api: ApiServer, caches: Caches, clock: LoopClock
) -> None:
    api.script("stream", PATH, Hang())
    api.stream(PATH, whole_list(500, thing("one", 7)))
    informer = caches.informer(THINGS)
    await api.until(1, "stream")
    clock.jump(131)
    await informer.wait_synced()
    assert len(api.seen) == 2
