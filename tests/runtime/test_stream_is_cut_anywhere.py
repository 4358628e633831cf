from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from gpustack_op.runtime.cache import Caches
from gpustack_op.runtime.lines import LineSplitter
from tests.runtime.apiserver import ApiServer, added, bookmark, modified, whole_list
from tests.runtime.things import PATH, THINGS, Heard, thing

CHINESE = "测试" * 20


@pytest.mark.parametrize("piece", [1, 2, 3, 4, 5, 6, 7])
async def test_characters_cut_by_the_network_arrive_whole(api: ApiServer, caches: Caches, piece: int) -> None:
    obj = thing("one", 7, labels={"text": CHINESE})
    api.stream(PATH, whole_list(500, obj), piece=piece)
    informer = caches.informer(THINGS)
    await asyncio.wait_for(informer.wait_synced(), 10)
    assert [one.labels["text"] for one in informer.all()] == [CHINESE]


async def test_an_object_of_two_megabytes_and_the_small_one_after_it_arrive(api: ApiServer, caches: Caches) -> None:
    stream = api.stream(PATH, whole_list(500), piece=16 * 1024)
    informer, heard = caches.informer(THINGS), Heard()
    informer.add_handler(heard)
    stream.send(added(thing("big", 501, parts=["x" * 1_000_000, "y" * 1_000_000])), added(thing("small", 502)))
    await heard.count(2)
    big = informer.get("big", "a")
    assert big is not None
    assert [len(part) for part in big.spec.parts] == [1_000_000, 1_000_000]
    assert heard.told == [(None, "big@501"), (None, "small@502")]


async def test_a_last_line_that_is_not_whole_is_dropped_and_the_watch_resumes(api: ApiServer, caches: Caches) -> None:
    whole, half = modified(thing("one", 501)), modified(thing("one", 502))
    api.stream(PATH, whole_list(500, thing("one", 7)), whole, half[:-20]).cut()
    api.stream(PATH, half, verb="watch")
    informer, heard = caches.informer(THINGS), Heard()
    informer.add_handler(heard)
    await heard.count(3)
    assert heard.told == [(None, "one@7"), ("one@7", "one@501"), ("one@501", "one@502")]
    assert api.of("watch")[0].query["resourceVersion"] == "501"
    assert len(api.of("stream", "list")) == 1


async def test_a_whole_object_without_its_line_break_is_no_line(api: ApiServer, caches: Caches) -> None:
    api.stream(PATH, whole_list(500, thing("one", 7)), modified(thing("one", 501))[:-1]).close()
    heard = Heard()
    caches.informer(THINGS).add_handler(heard)
    (watch,) = await api.until(1, "watch")
    assert watch.query["resourceVersion"] == "500"
    assert heard.told == [(None, "one@7")]


async def test_an_invalid_byte_does_not_end_the_watch(api: ApiServer, caches: Caches) -> None:
    bad = modified(thing("one", 501)).replace(b"uid-one", b"uid-\xff\xfe")
    api.stream(PATH, whole_list(500, thing("one", 7)), bad, b"\x00\xff\n", added(thing("two", 502)))
    informer, heard = caches.informer(THINGS), Heard()
    informer.add_handler(heard)
    with capture_logs() as logs:
        await heard.count(2)
    assert heard.told == [(None, "one@7"), (None, "two@502")]
    assert [line["event"] for line in logs] == ["object.undecodable"]
    assert informer.undecodable_count == 2
    assert len(api.seen) == 1


async def test_a_stream_of_nothing_but_bookmarks_moves_the_version_and_calls_nobody(
    api: ApiServer, caches: Caches
) -> None:
    api.stream(PATH, whole_list(500, thing("one", 7)), bookmark(510), bookmark(520), bookmark(530)).close()
    informer, heard = caches.informer(THINGS), Heard()
    informer.add_handler(heard)
    (watch,) = await api.until(1, "watch")
    assert watch.query["resourceVersion"] == "530"
    assert heard.told == [(None, "one@7")]
    assert [one.name for one in informer.all()] == ["one"]


@pytest.mark.parametrize("size", range(1, 12))
def test_lines_are_the_same_wherever_they_are_cut(size: int) -> None:
    data = b'{"a":1}\n\n{"b":"\xe6\xb5\x8b"}\n{"c"'
    splitter = LineSplitter()
    lines = [line for at in range(0, len(data), size) for line in splitter.feed(data[at : at + size])]
    assert lines == [b'{"a":1}', b'{"b":"\xe6\xb5\x8b"}']
