from __future__ import annotations

import asyncio

from gpustack_op.runtime.cache import EVERYTHING, Caches, Informer
from gpustack_op.runtime.decode import Event
from gpustack_op.runtime.lean import lean_codec
from gpustack_op.runtime.listing import Listing
from tests.runtime.apiserver import ApiServer, added, as_json, bookmark, expired, whole_list
from tests.runtime.things import PATH, THINGS, Heard, Thing, thing


async def test_the_old_state_is_served_until_the_new_list_is_whole_and_then_swapped_at_once(
    api: ApiServer, caches: Caches
) -> None:
    api.stream(PATH, whole_list(100, thing("one", 90), thing("two", 91)), expired())
    second = api.stream(PATH, added(thing("three", 400)))
    informer, heard = caches.informer(THINGS), Heard()
    seen: list[list[str]] = []
    informer.add_handler(lambda _change: seen.append(sorted(obj.name for obj in informer.all())))
    informer.add_handler(heard)
    await second.opened.wait()
    await heard.count(2)
    assert sorted(obj.name for obj in informer.all()) == ["one", "two"]
    assert informer.synced
    second.send(added(thing("four", 401)), bookmark(500, ends_list=True))
    await heard.count(6)
    assert seen[2:] == [["four", "three"]] * 4


async def test_an_unchanged_object_is_not_told_again(api: ApiServer, caches: Caches) -> None:
    api.stream(PATH, whole_list(100, thing("one", 90), thing("two", 91)), expired())
    api.stream(PATH, whole_list(500, thing("one", 90), thing("two", 450)))
    heard = Heard()
    caches.informer(THINGS).add_handler(heard)
    await heard.count(3)
    assert heard.told == [(None, "one@90"), (None, "two@91"), ("two@91", "two@450")]


async def test_differences_found_by_a_list_are_marked_as_such(api: ApiServer, caches: Caches) -> None:
    api.stream(PATH, whole_list(100, thing("one", 90)), expired())
    api.stream(PATH, whole_list(500, thing("one", 450)), added(thing("two", 501)))
    heard = Heard()
    caches.informer(THINGS).add_handler(heard)
    await heard.count(3)
    assert [change.initial for change in heard.changes] == [True, True, False]


async def test_a_resumed_watch_lists_nothing(api: ApiServer, caches: Caches) -> None:
    api.stream(PATH, whole_list(100, thing("one", 90))).close()
    stream = api.stream(PATH, added(thing("two", 101)), verb="watch")
    heard = Heard()
    caches.informer(THINGS).add_handler(heard)
    await asyncio.wait_for(stream.opened.wait(), 10)
    await heard.count(2)
    assert [seen.verb for seen in api.seen] == ["stream", "watch"]


async def test_what_happens_while_a_long_list_is_handed_out_is_told_after_it() -> None:
    informer, heard = Informer(THINGS, EVERYTHING), Heard()
    informer.add_handler(heard)
    codec = lean_codec(THINGS)
    listing: Listing[Thing] = Listing()
    for number in range(1000):
        listing.add_event(Event("ADDED", codec.object(as_json(thing(f"t{number}", 1)))))
    listing.version = "100"
    replacing = asyncio.create_task(informer.replace(listing))
    await asyncio.sleep(0)
    informer.put(codec.object(as_json(thing("t999", 101))))
    assert len(heard.changes) < 1000
    await replacing
    assert heard.told[999:] == [(None, "t999@1"), ("t999@1", "t999@101")]
