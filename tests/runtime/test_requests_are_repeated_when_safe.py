from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import aiohttp
import pytest

from gpustack_op.runtime.client import Client
from gpustack_op.runtime.config import ClientConfig
from gpustack_op.runtime.errors import (
    NETWORK_ERRORS,
    AlreadyExists,
    Conflict,
    InternalError,
    NotFound,
    ServiceUnavailable,
    TooManyRequests,
)
from tests.runtime.apiserver import ApiServer, Hang, Lost, Reply, status
from tests.runtime.things import IN_A, THINGS, Naps, thing

ONE = f"{IN_A}/one"
BUSY = Reply(429, b"Too many requests", {"Retry-After": "2"}, content_type="text/plain")
AWAY = Reply(503, b"<html>gone fishing</html>", content_type="text/html")
FAILED = Reply(500, status(500, "InternalError"))

Call = Callable[[Client], Awaitable[object]]
BODY = {"metadata": {"name": "one", "namespace": "a", "resourceVersion": "7"}}
CALLS: dict[str, Call] = {
    "get": lambda client: client.get(THINGS, "one", "a"),
    "put": lambda client: client.update(THINGS, BODY),
    "patch": lambda client: client.apply(THINGS, BODY, field_manager="me"),
    "delete": lambda client: client.delete(THINGS, "one", "a"),
}


@pytest.mark.parametrize("verb", CALLS)
@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(BUSY, id="throttled"),
        pytest.param(AWAY, id="unavailable"),
        pytest.param(FAILED, id="failed"),
        pytest.param(Lost(), id="answer lost"),
    ],
)
async def test_what_may_be_carried_out_twice_is_repeated(
    api: ApiServer, client: Client, verb: str, trouble: object
) -> None:
    api.script(verb, ONE, trouble, trouble, Reply(body=thing("one", 8)))
    await CALLS[verb](client)
    assert len(api.of(verb)) == 3


async def test_a_patch_that_adds_is_not_repeated_after_a_lost_answer(api: ApiServer, client: Client) -> None:
    api.script("patch", ONE, Lost())
    with pytest.raises(NETWORK_ERRORS):
        await client.json_patch(THINGS, "one", [{"op": "add", "path": "/spec/parts/-", "value": "x"}], namespace="a")
    assert len(api.of("patch")) == 1


async def test_a_patch_that_adds_is_repeated_when_it_was_throttled(api: ApiServer, client: Client) -> None:
    api.script("patch", ONE, BUSY, Reply(body=thing("one", 8)))
    await client.json_patch(THINGS, "one", [{"op": "add", "path": "/spec/parts/-", "value": "x"}], namespace="a")
    assert len(api.of("patch")) == 2


async def test_a_create_whose_answer_was_lost_ends_in_already_exists_that_is_perhaps_ours(
    api: ApiServer, client: Client
) -> None:
    api.script("post", IN_A, Lost(), Reply(409, status(409, "AlreadyExists", name="one")))
    with pytest.raises(AlreadyExists) as raised:
        await client.create(THINGS, BODY)
    assert raised.value.perhaps_ours


async def test_a_create_that_was_answered_at_once_met_somebody_elses_object(api: ApiServer, client: Client) -> None:
    api.script("post", IN_A, BUSY, Reply(409, status(409, "AlreadyExists", name="one")))
    with pytest.raises(AlreadyExists) as raised:
        await client.create(THINGS, BODY)
    assert not raised.value.perhaps_ours


async def test_a_create_without_a_fixed_name_is_not_repeated_after_a_lost_answer(
    api: ApiServer, client: Client
) -> None:
    api.script("post", IN_A, Lost())
    with pytest.raises(NETWORK_ERRORS):
        await client.create(THINGS, {"metadata": {"generateName": "one-", "namespace": "a"}})
    assert len(api.of("post")) == 1


async def test_retry_after_is_honoured_with_jitter(api: ApiServer, client: Client, naps: Naps) -> None:
    api.script("get", ONE, BUSY, BUSY, Reply(body=thing("one", 8)))
    await client.get(THINGS, "one", "a")
    assert [2 <= nap <= 2.4 for nap in naps.taken] == [True, True]
    assert naps.taken[0] != naps.taken[1]


async def test_all_attempts_together_stay_within_the_budget(api: ApiServer, client: Client, naps: Naps) -> None:
    api.script("get", ONE, *[BUSY] * 100)
    with pytest.raises(TooManyRequests) as raised:
        await client.get(THINGS, "one", "a")
    assert 24 < sum(naps.taken) < 30
    assert raised.value.retry_after == 2


async def test_a_wait_longer_than_the_budget_is_left_to_the_caller(api: ApiServer, client: Client, naps: Naps) -> None:
    api.script("get", ONE, Reply(429, b"", {"Retry-After": "40"}))
    with pytest.raises(TooManyRequests) as raised:
        await client.get(THINGS, "one", "a")
    assert raised.value.retry_after == 40
    assert naps.taken == []


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        pytest.param(Reply(404, status(404, "NotFound", name="one")), NotFound, id="404"),
        pytest.param(Reply(409, status(409, "Conflict")), Conflict, id="409"),
    ],
)
async def test_a_clear_answer_is_final(api: ApiServer, client: Client, reply: Reply, error: type[Exception]) -> None:
    api.script("put", ONE, reply)
    with pytest.raises(error):
        await client.update(THINGS, BODY)
    assert len(api.of("put")) == 1


@pytest.mark.parametrize(("trouble", "error"), [(AWAY, ServiceUnavailable), (FAILED, InternalError)])
async def test_when_the_budget_is_spent_the_last_error_is_raised(
    api: ApiServer, client: Client, trouble: Reply, error: type[Exception]
) -> None:
    api.script("get", ONE, *[trouble] * 100)
    with pytest.raises(error):
        await client.get(THINGS, "one", "a")


async def test_a_server_that_never_answers_is_given_up(api: ApiServer) -> None:
    api.script("get", ONE, Hang())
    async with Client(ClientConfig(server=api.url), budget=0.1) as client:
        with pytest.raises(TimeoutError, match=f"GET {ONE}: no answer in time"):
            await asyncio.wait_for(client.get(THINGS, "one", "a"), 10)


async def test_a_server_that_is_not_there_is_tried_within_the_budget(naps: Naps) -> None:
    async with Client(ClientConfig(server="http://127.0.0.1:1"), sleep=naps) as client:
        with pytest.raises(aiohttp.ClientConnectorError):
            await client.create(THINGS, {"metadata": {"generateName": "one-", "namespace": "a"}})
    assert len(naps.taken) > 3


async def test_no_more_requests_than_allowed_are_in_the_air(api: ApiServer, naps: Naps) -> None:
    answers = [api.stream(ONE, verb="get") for _ in range(5)]
    async with Client(ClientConfig(server=api.url), concurrency=2, sleep=naps) as client:
        gets = [asyncio.create_task(client.get(THINGS, "one", "a")) for _ in range(5)]
        await api.until(2, "get")
        for answered in range(1, 6):
            assert len(api.of("get")) == min(answered + 1, 5)
            answers[answered - 1].send(b'{"metadata": {"name": "one"}}').close()
            await asyncio.wait(gets, return_when=asyncio.FIRST_COMPLETED)
            gets = [task for task in gets if not task.done()]
            await api.until(min(answered + 2, 5), "get")


async def test_a_watch_takes_no_place_among_the_requests(api: ApiServer, naps: Naps) -> None:
    api.script("get", ONE, Reply(body=thing("one", 8)))
    async with (
        Client(ClientConfig(server=api.url), concurrency=1, sleep=naps) as client,
        client.watch(IN_A, {"resourceVersion": "1"}, total=10, silence=10),
    ):
        one = await client.get(THINGS, "one", "a")
    assert one.name == "one"
