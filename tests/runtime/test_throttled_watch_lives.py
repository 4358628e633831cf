from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from gpustack_op.runtime.cache import Caches
from tests.runtime.apiserver import ApiServer, Lost, Reply, page, status, whole_list
from tests.runtime.things import PATH, THINGS, Naps, eventually, thing

THROTTLED = Reply(429, b"Too many requests", {"Retry-After": "7"}, content_type="text/plain")
OVERLOADED = Reply(503, b"<html><body><h1>503</h1>No server is available</body></html>", content_type="text/html")


async def test_a_throttled_watch_waits_what_the_server_asked_with_jitter_and_lives(
    api: ApiServer, caches: Caches, naps: Naps
) -> None:
    api.script("stream", PATH, THROTTLED, THROTTLED, THROTTLED)
    api.stream(PATH, whole_list(500, thing("one", 7)))
    informer = caches.informer(THINGS)
    await asyncio.wait_for(informer.wait_synced(), 10)
    assert [7 <= nap <= 8.4 for nap in naps.taken] == [True, True, True]
    assert len(set(naps.taken)) == 3


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(OVERLOADED, id="503 with a proxy's page"),
        pytest.param(Reply(500, status(500, "InternalError")), id="500"),
        pytest.param(Reply(403, status(403, "Forbidden")), id="403"),
        pytest.param(Lost(), id="connection broken"),
    ],
)
async def test_whatever_a_watch_is_answered_it_asks_again(api: ApiServer, caches: Caches, refusal: Reply) -> None:
    api.script("stream", PATH, refusal, refusal, refusal)
    api.stream(PATH, whole_list(500, thing("one", 7)))
    informer = caches.informer(THINGS)
    await asyncio.wait_for(informer.wait_synced(), 10)
    assert [obj.name for obj in informer.all()] == ["one"]


async def test_a_throttled_list_waits_what_the_server_asked(api: ApiServer, caches: Caches, naps: Naps) -> None:
    api.script("stream", PATH, Reply(400, status(400, "BadRequest")))
    api.script("list", PATH, THROTTLED, Reply(body=page(500, thing("one", 7))))
    informer = caches.informer(THINGS)
    await asyncio.wait_for(informer.wait_synced(), 10)
    assert [7 <= nap <= 8.4 for nap in naps.taken] == [True]


async def test_a_nonsensical_wait_is_capped_at_a_minute(api: ApiServer, caches: Caches, naps: Naps) -> None:
    api.script("stream", PATH, Reply(429, b"", {"Retry-After": "86400"}))
    api.stream(PATH, whole_list(500))
    await asyncio.wait_for(caches.informer(THINGS).wait_synced(), 10)
    assert naps.taken[0] <= 72


async def test_delays_grow_from_a_fraction_of_a_second_to_half_a_minute(
    api: ApiServer, caches: Caches, naps: Naps
) -> None:
    api.script("stream", PATH, *[OVERLOADED] * 12)
    api.stream(PATH, whole_list(500))
    await asyncio.wait_for(caches.informer(THINGS).wait_synced(), 10)
    assert naps.taken[0] <= 0.2
    assert [15 <= nap <= 30 for nap in naps.taken[-3:]] == [True, True, True]


async def test_one_line_is_logged_when_it_keeps_failing_and_one_when_it_works(api: ApiServer, caches: Caches) -> None:
    api.script("stream", PATH, *[OVERLOADED] * 5)
    stream = api.stream(PATH, whole_list(500))
    with capture_logs() as logs:
        await asyncio.wait_for(caches.informer(THINGS).wait_synced(), 10)
        await eventually(lambda: len(logs) == 2)
        stream.close()
        await api.until(1, "watch")
    assert [line["event"] for line in logs] == ["watch.failing", "watch.recovered"]
    assert "503" in logs[0]["error"]
    assert "<html>" not in logs[0]["error"]


async def test_a_watch_that_has_lasted_starts_with_short_delays_again(
    api: ApiServer, caches: Caches, naps: Naps
) -> None:
    api.script("stream", PATH, *[OVERLOADED] * 8)
    stream = api.stream(PATH, whole_list(500))
    with capture_logs() as logs:
        await asyncio.wait_for(caches.informer(THINGS).wait_synced(), 10)
        await eventually(lambda: len(logs) == 2)
    stream.cut()
    await api.until(1, "watch")
    assert naps.taken[-2] > 10
    assert naps.taken[-1] <= 0.2
