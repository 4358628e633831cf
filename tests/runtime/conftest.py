from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gpustack_op.runtime.cache import Caches
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.config import ClientConfig
from gpustack_op.runtime.reflector import Timing
from tests.runtime.apiserver import ApiServer
from tests.runtime.things import Naps

QUICK = Timing(steady=0.05, missing=3.0)


@pytest.fixture
async def api() -> AsyncIterator[ApiServer]:
    async with ApiServer().running() as server:
        yield server


@pytest.fixture
def naps() -> Naps:
    return Naps()


@pytest.fixture
def exchanges() -> list[tuple[str, str, str]]:
    """Code, method and host of every answer that the client got."""
    return []


@pytest.fixture
async def client(api: ApiServer, naps: Naps, exchanges: list[tuple[str, str, str]]) -> AsyncIterator[Client]:
    def observe(code: str, method: str, host: str) -> None:
        exchanges.append((code, method, host))

    async with Client(ClientConfig(server=api.url), sleep=naps, observe=observe) as opened:
        yield opened


@pytest.fixture
async def caches(client: Client, naps: Naps) -> AsyncIterator[Caches]:
    """Running, with naps for delays."""
    made = Caches(client, timing=QUICK, sleep=naps, freeze=lambda: None)
    made.start()
    yield made
    await made.stop()
