from __future__ import annotations

import asyncio

import pytest

from gpustack_op.runtime.cache import Caches, Informer
from tests.runtime.apiserver import ApiServer, Reply, Stream, expired, modified, status, whole_list
from tests.runtime.things import PATH, THINGS, Heard, Naps, Thing, thing

LISTED_AT_100 = whole_list(100, thing("one", 90))
LISTED_AT_500 = whole_list(500, thing("one", 450))


async def followed(caches: Caches) -> tuple[Informer[Thing], Heard]:
    informer, heard = caches.informer(THINGS), Heard()
    informer.add_handler(heard)
    await asyncio.wait_for(informer.wait_synced(), 10)
    return informer, heard


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(Stream(expired("Expired")).close(), id="inside the stream, Expired"),
        pytest.param(Stream(expired("Gone")).close(), id="inside the stream, Gone"),
        pytest.param(Reply(410, status(410, "Expired")), id="as status, Expired"),
        pytest.param(Reply(410, status(410, "Gone")), id="as status, Gone"),
    ],
)
async def test_an_expired_version_is_followed_by_exactly_one_list(
    api: ApiServer, caches: Caches, refusal: Reply | Stream
) -> None:
    api.stream(PATH, LISTED_AT_100).cut()
    api.script("watch", PATH, refusal)
    api.stream(PATH, LISTED_AT_500).cut()
    _, heard = await followed(caches)
    await heard.count(2)
    watches = await api.until(2, "watch")
    assert heard.told == [(None, "one@90"), ("one@90", "one@450")]
    assert [seen.query["resourceVersion"] for seen in watches] == ["100", "500"]
    assert len(api.of("stream", "list")) == 2


async def test_the_first_expiry_is_followed_at_once_and_repeats_wait_longer_each_time(
    api: ApiServer, caches: Caches, naps: Naps
) -> None:
    for version in range(100, 800, 100):
        api.stream(PATH, whole_list(version, thing("one", 90)), expired())
    await followed(caches)
    await api.until(8, "stream")
    assert len(naps.taken) == 6
    assert sum(naps.taken[3:]) > 3 * sum(naps.taken[:3])


async def test_a_version_too_large_is_followed_by_a_list_with_the_version_left_unset(
    api: ApiServer, caches: Caches
) -> None:
    too_large = status(504, "Timeout", "Too large resource version: 100, current: 50")
    api.stream(PATH, LISTED_AT_100).cut()
    api.script("watch", PATH, Reply(504, too_large))
    await followed(caches)
    lists = await api.until(2, "stream")
    assert "resourceVersion" not in lists[1].query


async def test_an_expiry_in_the_midst_of_a_stream_keeps_what_came_before(api: ApiServer, caches: Caches) -> None:
    api.stream(PATH, LISTED_AT_100, modified(thing("one", 101)), expired())
    api.stream(PATH, LISTED_AT_500)
    _, heard = await followed(caches)
    await heard.count(3)
    assert heard.told == [(None, "one@90"), ("one@90", "one@101"), ("one@101", "one@450")]
