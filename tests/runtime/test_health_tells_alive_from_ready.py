"""Liveness and readiness, over HTTP and under it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from urllib.error import HTTPError
from urllib.request import urlopen

import aiohttp
import pytest

from gpustack_op.api.meta import PartialObject, Resource
from gpustack_op.runtime.endpoints import Endpoints
from gpustack_op.runtime.health import Liveness, LivenessServer, LoopPulse, Readiness
from gpustack_op.runtime.metrics import Metrics
from tests.runtime.fake_time import block_loop, in_fake_time, now

OURS = Resource("ours.example.com", "v1", "things", "Thing", PartialObject)
FOREIGN = Resource("foreign.example.com", "v1", "queues", "Queue", PartialObject)


class States:
    """Caches in the state the test wants."""

    def __init__(
        self, *, unsynced: list[str] | None = None, missing: list[Resource[PartialObject]] | None = None
    ) -> None:
        self._unsynced, self._missing = unsynced or [], missing or []

    def unsynced(self) -> list[str]:
        return self._unsynced

    def missing(self) -> list[Resource[PartialObject]]:
        return self._missing


def readiness(states: States) -> Readiness:
    made = Readiness(states, own_groups=("ours.example.com",))
    made.started = True
    return made


@pytest.mark.parametrize(
    ("states", "ready", "text"),
    [
        pytest.param(States(), True, "ok\n", id="an empty cluster is ready"),
        pytest.param(
            States(missing=[FOREIGN]),
            True,
            "ok\nwaiting for: queues.foreign.example.com\n",
            id="a foreign kind is named",
        ),
        pytest.param(
            States(missing=[OURS, FOREIGN]),
            False,
            "not served: things.ours.example.com\nwaiting for: queues.foreign.example.com\n",
            id="not without our own kinds",
        ),
        pytest.param(States(unsynced=["nodes"]), False, "not synced: nodes\n", id="not before a cache has synced"),
    ],
)
def test_readiness_names_what_is_in_the_way(states: States, ready: bool, text: str) -> None:
    answer = readiness(states).answer()
    assert (answer.ready, answer.text) == (ready, text)


def test_nothing_is_ready_before_it_has_started() -> None:
    answer = Readiness(States()).answer()
    assert (answer.ready, answer.text) == (False, "not started\n")


def test_a_check_that_was_added_fails_readiness_with_its_own_words() -> None:
    made = readiness(States())
    problems = ["lease refused", None]
    made.add_check(lambda: problems[0])
    assert made.answer().text == "lease refused\n"
    problems.reverse()
    assert made.answer().ready


def test_liveness_fails_while_the_loop_is_blocked_for_too_long() -> None:
    at = [0.0]
    liveness = Liveness(blocked_limit=20, clock=lambda: at[0])
    assert liveness.problem() is None
    liveness.beat()
    at[0] = 20.0
    assert liveness.problem() is None
    at[0] = 30.0
    assert liveness.problem() == "event loop blocked for 30 s"
    liveness.beat()
    assert liveness.problem() is None


def test_liveness_never_forgives_a_dead_task() -> None:
    liveness = Liveness()
    liveness.task_died("queue")
    liveness.beat()
    assert liveness.problem() == "dead: queue"


@in_fake_time
async def test_the_pulse_measures_by_how_much_the_loop_is_late() -> None:
    metrics = Metrics()
    liveness = Liveness(blocked_limit=20, clock=now)
    pulse = asyncio.create_task(LoopPulse(liveness, metrics).run())
    await asyncio.sleep(10.1)
    assert metrics.value("gpustack_event_loop_lag_seconds_sum") == pytest.approx(0)
    block_loop(30)
    assert liveness.problem() == "event loop blocked for 30 s"
    await asyncio.sleep(0.2)
    assert liveness.problem() is None
    assert metrics.value("gpustack_event_loop_lag_seconds_bucket", le="10.0") == 40
    assert metrics.value("gpustack_event_loop_lag_seconds_count") == 41
    pulse.cancel()


@contextmanager
def serving(liveness: Liveness) -> Iterator[str]:
    server = LivenessServer(liveness, "127.0.0.1", 0)
    server.start()
    yield f"http://127.0.0.1:{server.port}/healthz"
    server.stop()


def probe(url: str) -> tuple[int, str]:
    try:
        with urlopen(url, timeout=5) as response:
            return response.status, response.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


async def test_liveness_answers_while_the_loop_is_blocked() -> None:
    liveness = Liveness(blocked_limit=0.05)
    liveness.beat()
    with serving(liveness) as url:
        assert probe(url) == (200, "ok\n")  # from within the loop, which cannot run meanwhile
        time.sleep(0.06)  # noqa: ASYNC251
        assert probe(url) == (503, "event loop blocked for 0 s\n")
        liveness.beat()
        assert probe(url) == (200, "ok\n")


@asynccontextmanager
async def endpoints(metrics: Metrics, states: States) -> AsyncIterator[str]:
    served = Endpoints(metrics, readiness(states), "127.0.0.1", 0)
    await served.start()
    yield f"http://127.0.0.1:{served.port}"
    await served.stop()


async def test_metrics_and_readiness_are_served() -> None:
    metrics = Metrics()
    metrics.counter("apples_total", "Apples.", ("kind",)).labels(kind='a"b\\c\nd').inc()
    async with endpoints(metrics, States(missing=[FOREIGN])) as url, aiohttp.ClientSession() as session:
        async with session.get(f"{url}/metrics") as response:
            assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            assert 'apples_total{kind="a\\"b\\\\c\\nd"} 1.0' in await response.text()
        async with session.get(f"{url}/readyz") as response:
            assert response.status == 200
            assert "queues.foreign.example.com" in await response.text()


async def test_readiness_that_fails_is_a_503_with_the_reason() -> None:
    async with (
        endpoints(Metrics(), States(missing=[OURS])) as url,
        aiohttp.ClientSession() as session,
        session.get(f"{url}/readyz") as response,
    ):
        assert response.status == 503
        assert await response.text() == "not served: things.ours.example.com\n"
