from __future__ import annotations

import asyncio

from structlog.testing import capture_logs

from gpustack_op.runtime.cache import Caches
from tests.runtime.apiserver import NOT_SERVED, ApiServer, Reply, added, status, whole_list
from tests.runtime.things import GADGET_PATH, GADGETS, PATH, THINGS, Heard, Naps, thing


async def test_a_kind_that_is_not_served_is_named_and_starts_by_itself_when_it_comes(
    api: ApiServer, caches: Caches, naps: Naps
) -> None:
    api.script("stream", PATH, *[NOT_SERVED] * 3)
    last = api.stream(PATH)
    informer = caches.informer(THINGS)
    with capture_logs() as logs:
        await asyncio.wait_for(last.opened.wait(), 10)
        assert informer.missing
        assert caches.missing() == [THINGS]
        assert caches.unsynced() == []
        last.send(whole_list(500, thing("one", 7)))
        await asyncio.wait_for(informer.wait_synced(), 10)
    assert not informer.missing
    assert caches.missing() == []
    assert [2.4 <= nap <= 3.6 for nap in naps.taken] == [True, True, True]
    assert [line["event"] for line in logs] == ["kind.missing", "kind.served"]


async def test_a_status_that_names_no_object_also_means_that_the_kind_is_missing(
    api: ApiServer, caches: Caches
) -> None:
    nameless = status(404, "NotFound", "the server could not find the requested resource")
    api.script("stream", PATH, Reply(404, nameless))
    last = api.stream(PATH)
    informer = caches.informer(THINGS)
    await asyncio.wait_for(last.opened.wait(), 10)
    assert informer.missing


async def test_other_kinds_sync_meanwhile(api: ApiServer, caches: Caches) -> None:
    api.script("stream", PATH, *[NOT_SERVED] * 1000)
    api.stream(GADGET_PATH, whole_list(500, thing("one", 7)))
    caches.informer(THINGS)
    gadgets = caches.informer(GADGETS)
    await asyncio.wait_for(caches.wait_synced(), 10)
    assert gadgets.synced


async def test_a_kind_that_is_taken_away_keeps_its_state_until_it_is_back(api: ApiServer, caches: Caches) -> None:
    api.stream(PATH, whole_list(500, thing("one", 7))).close()
    api.script("watch", PATH, NOT_SERVED)
    again = api.stream(PATH)
    informer, heard = caches.informer(THINGS), Heard()
    informer.add_handler(heard)
    await asyncio.wait_for(again.opened.wait(), 10)
    assert informer.missing
    assert informer.synced
    assert [obj.name for obj in informer.all()] == ["one"]
    again.send(whole_list(900), added(thing("two", 901)))
    await heard.count(3)
    assert heard.told == [(None, "one@7"), ("one@7", None), (None, "two@901")]
    assert not informer.missing


async def test_a_kind_whose_conversion_fails_for_a_while_is_not_missing(api: ApiServer, caches: Caches) -> None:
    api.script("stream", PATH, *[Reply(503, status(503, "ServiceUnavailable", "conversion webhook failed"))] * 3)
    last = api.stream(PATH, whole_list(500, thing("one", 7)))
    informer = caches.informer(THINGS)
    await asyncio.wait_for(last.opened.wait(), 10)
    assert not informer.missing
    await asyncio.wait_for(informer.wait_synced(), 10)
