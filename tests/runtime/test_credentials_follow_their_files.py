from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest
from structlog.testing import capture_logs

from gpustack_op.runtime.cache import Caches
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.config import ClientConfig, ConfigError
from gpustack_op.runtime.credentials import Credentials
from gpustack_op.runtime.errors import Unauthorized
from tests.runtime.apiserver import ApiServer, Reply, added, whole_list
from tests.runtime.authority import new_authority
from tests.runtime.things import IN_A, PATH, THINGS, Heard, Naps, thing

ONE = f"{IN_A}/one"


class Mounted:
    """A token as the kubelet mounts it: a link to a link to a folder that is replaced whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._turn = 0
        self.token = folder / "token"
        self.token.symlink_to("..data/token")

    def swap(self, token: str) -> None:
        self._turn += 1
        fresh = self._folder / f"..{self._turn}"
        fresh.mkdir()
        (fresh / "token").write_text(token)
        link = self._folder / "..data_tmp"
        link.symlink_to(fresh.name)
        link.rename(self._folder / "..data")


@pytest.fixture
def mounted(tmp_path: Path) -> Mounted:
    files = Mounted(tmp_path)
    files.swap("first")
    return files


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_a_refused_token_is_read_again_and_the_request_repeated_at_once(
    api: ApiServer, mounted: Mounted, naps: Naps
) -> None:
    api.tokens = {"first"}
    api.script("get", ONE, *[Reply(body=thing("one", 7))] * 2)
    async with Client(ClientConfig(server=api.url, token_file=mounted.token), sleep=naps) as client:
        await client.get(THINGS, "one", "a")
        mounted.swap("second")
        api.tokens = {"second"}
        await client.get(THINGS, "one", "a")
    assert [seen.headers["Authorization"] for seen in api.seen] == ["Bearer first", "Bearer first", "Bearer second"]
    assert naps.taken == []


async def test_a_token_that_stays_refused_is_tried_once_more_and_no_more(api: ApiServer, mounted: Mounted) -> None:
    api.tokens = set()
    async with Client(ClientConfig(server=api.url, token_file=mounted.token)) as client:
        with pytest.raises(Unauthorized):
            await client.get(THINGS, "one", "a")
    assert len(api.seen) == 2


async def test_a_new_token_is_used_within_a_minute_without_being_refused_first(mounted: Mounted) -> None:
    clock = Clock()
    credentials = Credentials(ClientConfig(server="", token_file=mounted.token), monotonic=clock)
    assert (await credentials.current()).authorization == "Bearer first"
    mounted.swap("second")
    clock.now += 60
    assert (await credentials.current()).authorization == "Bearer second"


async def test_an_empty_or_absent_file_keeps_the_old_token_until_it_can_be_read(mounted: Mounted) -> None:
    clock = Clock()
    credentials = Credentials(ClientConfig(server="", token_file=mounted.token), monotonic=clock)
    proof = await credentials.current()
    with capture_logs() as logs:
        mounted.swap("")
        assert (await credentials.refused(proof)).authorization == "Bearer first"
        mounted.token.unlink()
        clock.now += 60
        assert (await credentials.current()).authorization == "Bearer first"
        mounted.token.symlink_to("..data/token")
        mounted.swap("second")
        clock.now += 60
        assert (await credentials.current()).authorization == "Bearer second"
    assert [line["event"] for line in logs] == ["credentials.unreadable", "credentials.readable"]


async def test_a_token_that_was_never_there_is_said_to_be_missing(tmp_path: Path) -> None:
    credentials = Credentials(ClientConfig(server="", token_file=tmp_path / "token"))
    with pytest.raises(ConfigError, match="token"):
        await credentials.current()


async def test_an_open_watch_goes_on_while_the_token_changes_and_resumes_with_the_new_one(
    api: ApiServer, mounted: Mounted, naps: Naps
) -> None:
    api.tokens = {"first"}
    first = api.stream(PATH, whole_list(100, thing("one", 90)))
    api.stream(PATH, added(thing("three", 102)), verb="watch")
    heard = Heard()
    async with Client(ClientConfig(server=api.url, token_file=mounted.token), sleep=naps) as client:
        caches = Caches(client, sleep=naps, freeze=lambda: None)
        caches.informer(THINGS).add_handler(heard)
        caches.start()
        await heard.count(1)
        mounted.swap("second")
        api.tokens = {"second"}
        first.send(added(thing("two", 101)))
        await heard.count(2)
        first.cut()
        await heard.count(3)
        await caches.stop()
    assert heard.told == [(None, "one@90"), (None, "two@101"), (None, "three@102")]
    assert len(api.of("stream")) == 1


async def test_a_new_certificate_authority_is_used_for_new_connections(tmp_path: Path) -> None:
    old, new = new_authority(tmp_path, "old"), new_authority(tmp_path, "new")
    ca_file = tmp_path / "ca.crt"
    ca_file.write_bytes(old.ca)
    clock, api = Clock(), ApiServer()
    api.script("get", ONE, *[Reply(body=thing("one", 7))] * 2)
    async with api.running(tls=old.server):
        port = int(api.url.rpartition(":")[2])
        client = Client(ClientConfig(server=api.url, ca_file=ca_file), budget=1.0)
        client._transport._credentials._monotonic = clock
        await client.get(THINGS, "one", "a")
    async with api.running(tls=new.server, port=port):
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await client.get(THINGS, "one", "a")
        ca_file.write_bytes(new.ca)
        clock.now += 60
        await client.get(THINGS, "one", "a")
    await client.close()
    assert len(api.seen) == 2


async def test_an_unchanged_certificate_authority_keeps_connections(tmp_path: Path) -> None:
    authority = new_authority(tmp_path, "old")
    ca_file = tmp_path / "ca.crt"
    ca_file.write_bytes(authority.ca)
    clock = Clock()
    credentials = Credentials(ClientConfig(server="", ca_file=ca_file), monotonic=clock)
    before = await credentials.current()
    clock.now += 60
    assert (await credentials.current()).tls is before.tls


async def test_credentials_of_a_plugin_are_fetched_anew_when_refused() -> None:
    asked: list[bool] = []

    async def refresh(refused: bool) -> ClientConfig:
        asked.append(refused)
        return ClientConfig(server="", authorization="Bearer second", refresh=refresh)

    clock = Clock()
    credentials = Credentials(ClientConfig(server="", authorization="Bearer first", refresh=refresh), monotonic=clock)
    first = await credentials.current()
    assert (first.authorization, asked) == ("Bearer first", [])
    second, also_second = await asyncio.gather(credentials.refused(first), credentials.refused(first))
    assert (second.authorization, also_second.authorization) == ("Bearer second", "Bearer second")
    assert asked == [True]
    clock.now += 60
    await credentials.current()
    assert asked == [True, False]
