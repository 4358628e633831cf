from __future__ import annotations

import asyncio

import pytest

from gpustack_op.runtime.cache import Caches, Informer, Selector
from gpustack_op.runtime.client import Client
from tests.runtime.apiserver import (
    ApiServer,
    Reply,
    Stream,
    added,
    as_json,
    bookmark,
    deleted,
    expired,
    modified,
    whole_list,
)
from tests.runtime.things import IN_A, PATH, THINGS, Heard, Thing, thing

GONE = {"kind": "Status", "status": "Success", "details": {"name": "one", "uid": "uid-one"}}


class Followed:
    """An informer that has synced at version 100 with the object `one@90`, whose watch the test writes on."""

    def __init__(self, informer: Informer[Thing], stream: Stream, heard: Heard) -> None:
        self.informer = informer
        self.stream = stream
        self.heard = heard

    def version(self, name: str) -> str | None:
        found = self.informer.get(name, "a")
        return None if found is None else found.metadata.resource_version

    async def told_of(self, event: bytes, last: str) -> None:
        """Sends an event, and one of another object after it that shows that it has been dealt with."""
        self.stream.send(event, added(thing(f"marker{last}", int(last))))
        await self.heard.until(lambda: self.version(f"marker{last}") == last)


@pytest.fixture
async def followed(api: ApiServer, caches: Caches) -> Followed:
    stream = api.stream(PATH, whole_list(100, thing("one", 90)))
    informer, heard = caches.informer(THINGS), Heard()
    informer.add_handler(heard)
    await asyncio.wait_for(informer.wait_synced(), 10)
    return Followed(informer, stream, heard)


async def patched(api: ApiServer, client: Client, version: int, size: int = 0) -> None:
    api.script("patch", f"{IN_A}/one", Reply(body=thing("one", version, size=size)))
    await client.merge_patch(THINGS, "one", {"spec": {"size": size}}, namespace="a")


async def removed(api: ApiServer, client: Client, answer: object = GONE) -> None:
    api.script("delete", f"{IN_A}/one", Reply(body=answer))
    await client.delete(THINGS, "one", "a")


async def test_a_write_is_seen_before_its_caller_goes_on(api: ApiServer, client: Client, followed: Followed) -> None:
    await patched(api, client, 101, size=3)
    one = followed.informer.get("one", "a")
    assert one is not None
    assert one.spec.size == 3
    assert followed.heard.told == [(None, "one@90"), ("one@90", "one@101")]


async def test_a_created_object_is_seen_before_its_caller_goes_on(
    api: ApiServer, client: Client, followed: Followed
) -> None:
    api.script("post", IN_A, Reply(201, thing("two", 101)))
    await client.create(THINGS, {"metadata": {"name": "two", "namespace": "a"}})
    assert followed.version("two") == "101"


async def test_the_watch_telling_of_an_own_write_is_no_second_change(
    api: ApiServer, client: Client, followed: Followed
) -> None:
    await patched(api, client, 101)
    await followed.told_of(modified(thing("one", 101)), "102")
    assert followed.heard.told == [(None, "one@90"), ("one@90", "one@101"), (None, "marker102@102")]


async def test_nothing_older_than_an_own_write_is_shown_afterwards(
    api: ApiServer, client: Client, followed: Followed
) -> None:
    await patched(api, client, 105)
    await followed.told_of(modified(thing("one", 101)), "102")
    assert followed.version("one") == "105"
    await followed.told_of(modified(thing("one", 106)), "107")
    assert followed.version("one") == "106"


async def test_a_write_older_than_what_the_watch_told_cannot_raise_a_deleted_object(
    api: ApiServer, client: Client, followed: Followed
) -> None:
    answer = api.stream(f"{IN_A}/one", verb="patch")
    writing = asyncio.create_task(client.merge_patch(THINGS, "one", {}, namespace="a"))
    await answer.opened.wait()
    await followed.told_of(modified(thing("one", 101)) + deleted(thing("one", 102)), "103")
    answer.send(as_json(thing("one", 101))).close()
    await writing
    assert followed.version("one") is None


async def test_a_list_older_than_an_own_write_does_not_undo_it(
    api: ApiServer, client: Client, followed: Followed
) -> None:
    relist = api.stream(PATH)
    followed.stream.send(expired())
    await relist.opened.wait()
    await patched(api, client, 205)
    api.script("post", IN_A, Reply(201, thing("two", 206)))
    await client.create(THINGS, {"metadata": {"name": "two", "namespace": "a"}})
    relist.send(whole_list(200, thing("one", 90), thing("three", 150)))
    await followed.heard.until(lambda: followed.version("three") == "150")
    assert (followed.version("one"), followed.version("two")) == ("205", "206")


async def test_a_list_newer_than_an_own_write_has_the_last_word(
    api: ApiServer, client: Client, followed: Followed
) -> None:
    relist = api.stream(PATH)
    followed.stream.send(expired())
    await relist.opened.wait()
    await patched(api, client, 205)
    relist.send(whole_list(300, thing("three", 150)))
    await followed.heard.until(lambda: followed.version("three") == "150")
    assert followed.version("one") is None


async def test_a_deleted_object_is_hidden_at_once_and_stays_so_until_the_watch_says_it(
    api: ApiServer, client: Client, followed: Followed
) -> None:
    await removed(api, client)
    assert followed.version("one") is None
    await followed.told_of(modified(thing("one", 101)), "102")
    assert followed.version("one") is None
    await followed.told_of(deleted(thing("one", 103)), "104")
    await followed.told_of(added(thing("one", 105, uid="another")), "106")
    assert followed.version("one") == "105"
    assert [told for told in followed.heard.told if "marker" not in str(told)] == [
        (None, "one@90"),
        ("one@90", None),
        (None, "one@105"),
    ]


async def test_a_hidden_object_stays_hidden_over_a_list_that_still_holds_it(
    api: ApiServer, client: Client, followed: Followed
) -> None:
    await removed(api, client)
    relist = api.stream(PATH, whole_list(200, thing("one", 90), thing("three", 150)))
    followed.stream.send(expired())
    await followed.heard.until(lambda: followed.version("three") == "150")
    assert followed.version("one") is None
    relist.send(deleted(thing("one", 201)), added(thing("one", 202, uid="another")))
    await followed.heard.until(lambda: followed.version("one") == "202")


async def test_an_object_that_is_recreated_by_us_is_not_removed_by_the_old_ones_deletion(
    api: ApiServer, client: Client, followed: Followed
) -> None:
    await removed(api, client)
    api.script("post", IN_A, Reply(201, thing("one", 110, uid="another")))
    await client.create(THINGS, {"metadata": {"name": "one", "namespace": "a"}})
    await followed.told_of(deleted(thing("one", 109)) + added(thing("one", 110, uid="another")), "111")
    assert [told for told in followed.heard.told if "marker" not in str(told)] == [
        (None, "one@90"),
        ("one@90", None),
        (None, "one@110"),
    ]


async def test_a_deletion_that_waits_for_finalizers_shows_the_object_as_deleting(
    api: ApiServer, client: Client, followed: Followed
) -> None:
    waiting = thing("one", 101, deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["example.com/hold"])
    await removed(api, client, waiting)
    one = followed.informer.get("one", "a")
    assert one is not None
    assert one.deleting


async def test_a_deletion_answered_with_the_object_that_is_gone_hides_it(
    api: ApiServer, client: Client, followed: Followed
) -> None:
    await removed(api, client, thing("one", 101))
    assert followed.version("one") is None


@pytest.mark.parametrize(
    "selector",
    [
        pytest.param(Selector(labels="use=yes"), id="labels"),
        pytest.param(Selector(fields="spec.nodeName=n1"), id="fields"),
        pytest.param(Selector(labels="use in (yes,perhaps),!never", fields="spec.nodeName!=n2"), id="both"),
    ],
)
async def test_a_write_after_which_the_selector_no_longer_holds_the_object_removes_it(
    api: ApiServer, client: Client, caches: Caches, selector: Selector
) -> None:
    stream = api.stream(PATH, whole_list(100, thing("one", 90, labels={"use": "yes"}, nodeName="n1")))
    informer, heard = caches.informer(THINGS, selector), Heard()
    informer.add_handler(heard)
    await asyncio.wait_for(informer.wait_synced(), 10)
    api.script("patch", f"{IN_A}/one", Reply(body=thing("one", 101, labels={"use": "no"}, nodeName="n2")))
    await client.merge_patch(THINGS, "one", {}, namespace="a")
    assert heard.told == [(None, "one@90"), ("one@90", None)]
    stream.send(deleted(thing("one", 101)), added(thing("two", 102, labels={"use": "yes"})))
    await heard.count(3)
    assert heard.told[2:] == [(None, "two@102")]


async def test_a_write_that_the_watch_passes_without_a_word_is_dropped(
    api: ApiServer, client: Client, followed: Followed
) -> None:
    api.script("post", IN_A, Reply(201, thing("two", 101)))
    await client.create(THINGS, {"metadata": {"name": "two", "namespace": "a"}})
    followed.stream.send(bookmark(102))
    await followed.heard.until(lambda: followed.version("two") is None)
    assert followed.heard.told[1:] == [(None, "two@101"), ("two@101", None)]


async def test_a_write_in_another_namespace_does_not_enter(api: ApiServer, client: Client, caches: Caches) -> None:
    api.stream(IN_A, whole_list(100))
    informer = caches.informer(THINGS, Selector(namespace="a"))
    await asyncio.wait_for(informer.wait_synced(), 10)
    api.script("post", PATH.replace("things", "namespaces/b/things"), Reply(201, thing("one", 101, namespace="b")))
    await client.create(THINGS, {"metadata": {"name": "one", "namespace": "b"}})
    assert informer.all() == []


async def test_two_answers_in_the_wrong_order_leave_the_later_write(
    api: ApiServer, client: Client, followed: Followed
) -> None:
    slow = api.stream(f"{IN_A}/one", verb="patch")
    writing = asyncio.create_task(client.merge_patch(THINGS, "one", {}, namespace="a"))
    await slow.opened.wait()
    await patched(api, client, 102)
    slow.send(as_json(thing("one", 101))).close()
    await writing
    assert followed.version("one") == "102"
