"""The controller: what a reconcile does to itself, it does to no other key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import structlog
from structlog.testing import capture_logs

from gpustack_op.runtime.change import Change
from gpustack_op.runtime.controller import (
    DONE,
    Controller,
    Request,
    Result,
    TerminalError,
    TryAgainError,
    Watch,
    primary,
)
from gpustack_op.runtime.errors import Conflict, InternalError
from gpustack_op.runtime.logging import add_current_fields, logger
from gpustack_op.runtime.metrics import Metrics
from gpustack_op.runtime.rate_limits import KeyBackoff
from tests.runtime.fake_time import in_fake_time, now, settle
from tests.runtime.sources import FakeSource
from tests.runtime.things import Thing

A, B = Request("a", "ns"), Request("b", "ns")
Behaviour = Callable[[Request], Awaitable[Result]]


class Scripted:
    """Reconciles as told, key by key, and remembers; once a key's script is over it succeeds."""

    name = "scripted"

    def __init__(self, **scripts: list[Behaviour | Exception | Result]) -> None:
        self.scripts = scripts
        self.runs: list[tuple[str, float]] = []

    async def reconcile(self, request: Request) -> Result:
        self.runs.append((request.name, now()))
        script = self.scripts.get(request.name)
        step = script.pop(0) if script else DONE
        if isinstance(step, Exception):
            raise step
        return step if isinstance(step, Result) else await step(request)

    def times(self, name: str) -> list[float]:
        return [time for key, time in self.runs if key == name]


@asynccontextmanager
async def running(
    reconciler: Scripted, *watches: Watch[Thing], workers: int = 1, limit: float = 60.0
) -> AsyncIterator[tuple[Controller, Metrics]]:
    metrics = Metrics()
    controller = Controller(
        reconciler,
        watches,
        workers=workers,
        timeout=limit,
        metrics=metrics,
        backoff=KeyBackoff(base=1, cap=64),
    )
    stop = asyncio.Event()
    task = asyncio.create_task(controller.run(stop))
    await settle()
    try:
        yield controller, metrics
    finally:
        stop.set()
        await task


def counted(metrics: Metrics, result: str) -> float | None:
    return metrics.value("controller_runtime_reconcile_total", controller="scripted", result=result)


@in_fake_time
async def test_a_failing_key_backs_off_and_another_key_is_not_held_up() -> None:
    reconciler = Scripted(a=[ValueError("broken"), ValueError("broken"), DONE])
    async with running(reconciler) as (controller, metrics):
        started = now()
        controller.enqueue(A)
        controller.enqueue(B)
        await asyncio.sleep(10)
        assert [time - started for time in reconciler.times("a")] == [0, 1, 3]
        assert [time - started for time in reconciler.times("b")] == [0]
        assert counted(metrics, "error") == 2
        assert counted(metrics, "success") == 2
        assert metrics.value("controller_runtime_reconcile_errors_total", controller="scripted") == 2
        assert metrics.value("controller_runtime_reconcile_panics_total", controller="scripted") == 2


@in_fake_time
async def test_a_success_starts_the_back_off_anew() -> None:
    reconciler = Scripted(a=[ValueError("one"), ValueError("two"), DONE, ValueError("three"), DONE])
    async with running(reconciler) as (controller, _):
        controller.enqueue(A)
        await asyncio.sleep(10)
        started = now()
        controller.enqueue(A)
        await asyncio.sleep(10)
        assert [time - started for time in reconciler.times("a")[3:]] == [0, 1]


@in_fake_time
async def test_one_line_when_a_key_starts_to_fail_and_one_when_it_works_again() -> None:
    reconciler = Scripted(a=[InternalError(500, "InternalError", "no")] * 6)
    with capture_logs() as lines:
        async with running(reconciler) as (controller, _):
            controller.enqueue(A)
            await asyncio.sleep(200)
    assert [line["event"] for line in lines] == ["reconcile.failing", "reconcile.recovered"]
    assert lines[0]["error"] == "no (500 InternalError)"


@in_fake_time
async def test_a_settled_controller_writes_no_line() -> None:
    with capture_logs() as lines:
        async with running(Scripted()) as (controller, _):
            for _ in range(100):
                controller.enqueue(A)
                await asyncio.sleep(1)
    assert lines == []


@in_fake_time
async def test_every_line_names_the_reconcile_it_belongs_to() -> None:
    async def say(_request: Request) -> Result:
        await asyncio.create_task(inner())
        return DONE

    async def inner() -> None:
        logger("test").info("thing.done", namespace="other")

    with capture_logs(processors=[add_current_fields]) as lines:
        async with running(Scripted(a=[say], b=[say])) as (controller, _):
            controller.enqueue(A)
            controller.enqueue(B)
            await settle()
    first, second = lines
    assert (first["controller"], first["namespace"], first["name"]) == ("scripted", "other", "a")
    assert (second["controller"], second["name"]) == ("scripted", "b")
    assert first["reconcile_id"] != second["reconcile_id"]
    assert structlog.contextvars.get_contextvars() == {}


@in_fake_time
async def test_a_lost_race_is_retried_without_a_word() -> None:
    reconciler = Scripted(a=[Conflict(409, "Conflict", "changed"), TryAgainError("soon")])
    with capture_logs() as lines:
        async with running(reconciler) as (controller, metrics):
            controller.enqueue(A)
            await asyncio.sleep(10)
            assert counted(metrics, "requeue") == 2
            assert counted(metrics, "success") == 1
            assert counted(metrics, "error") == 0
    assert lines == []


@in_fake_time
async def test_a_race_that_is_lost_for_ever_is_told_in_the_end() -> None:
    reconciler = Scripted(a=[Conflict(409, "Conflict", "changed")] * 8)
    with capture_logs() as lines:
        async with running(reconciler) as (controller, _):
            controller.enqueue(A)
            await asyncio.sleep(1000)
    assert [line["event"] for line in lines] == ["reconcile.failing", "reconcile.recovered"]


@in_fake_time
async def test_a_terminal_error_rests_until_the_next_event() -> None:
    reconciler = Scripted(a=[TerminalError("no such row"), TerminalError("no such row"), DONE])
    with capture_logs() as lines:
        async with running(reconciler) as (controller, metrics):
            controller.enqueue(A)
            await asyncio.sleep(86400)
            assert len(reconciler.runs) == 1
            assert metrics.value("controller_runtime_terminal_reconcile_errors_total", controller="scripted") == 1
            controller.enqueue(A)
            await settle()
            controller.enqueue(A)
            await settle()
    assert [line["event"] for line in lines] == ["reconcile.gave_up", "reconcile.recovered"]


@in_fake_time
async def test_a_result_may_ask_to_come_back() -> None:
    reconciler = Scripted(a=[Result(requeue_after=30)])
    async with running(reconciler) as (controller, metrics):
        started = now()
        controller.enqueue(A)
        await asyncio.sleep(100)
        assert [time - started for time in reconciler.times("a")] == [0, 30]
        assert counted(metrics, "requeue_after") == 1


@in_fake_time
async def test_a_reconcile_that_hangs_is_cut_off_and_retried() -> None:
    async def hang(_request: Request) -> Result:
        await asyncio.Event().wait()
        return DONE

    reconciler = Scripted(a=[hang])
    with capture_logs() as lines:
        async with running(reconciler, limit=5) as (controller, metrics):
            started = now()
            controller.enqueue(A)
            await asyncio.sleep(10)
            assert [time - started for time in reconciler.times("a")] == [0, 6]
            assert metrics.value("controller_runtime_reconcile_timeouts_total", controller="scripted") == 1
    assert lines[0]["error"] == "reconcile took longer than 5 s"


@in_fake_time
async def test_a_cancellation_from_inside_is_a_failure_and_no_end_of_the_worker() -> None:
    async def awaits_cancelled(_request: Request) -> Result:
        task = asyncio.create_task(asyncio.sleep(5))
        task.cancel()
        await task
        return DONE

    reconciler = Scripted(a=[awaits_cancelled])
    async with running(reconciler) as (controller, metrics):
        controller.enqueue(A)
        await asyncio.sleep(5)
        assert counted(metrics, "error") == 1
        assert counted(metrics, "success") == 1


@in_fake_time
async def test_workers_run_different_keys_at_once_and_never_the_same() -> None:
    together, most = set[str](), 0

    async def overlap(request: Request) -> Result:
        nonlocal most
        assert request.name not in together
        together.add(request.name)
        most = max(most, len(together))
        await asyncio.sleep(1)
        together.remove(request.name)
        return DONE

    reconciler = Scripted(a=[overlap, overlap], b=[overlap])
    async with running(reconciler, workers=3) as (controller, metrics):
        controller.enqueue(A)
        controller.enqueue(B)
        await asyncio.sleep(0.5)
        controller.enqueue(A)
        assert metrics.value("controller_runtime_active_workers", controller="scripted") == 2
        await asyncio.sleep(5)
        assert metrics.value("controller_runtime_max_concurrent_reconciles", controller="scripted") == 3
    assert most == 2
    assert [name for name, _ in reconciler.runs] == ["a", "b", "a"]


@in_fake_time
async def test_a_long_queue_leaves_turns_to_other_tasks() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    worked = asyncio.Event()

    async def last(_request: Request) -> Result:
        worked.set()
        return DONE

    async with running(Scripted(last=[last])) as (controller, _):
        for number in range(1000):
            controller.enqueue(Request(str(number)))
        controller.enqueue(Request("last"))
        busy = asyncio.create_task(other())
        await worked.wait()
        busy.cancel()
    assert turns >= 15


@in_fake_time
async def test_a_stop_lets_the_reconcile_in_progress_end_and_starts_no_other() -> None:
    async def slow(_request: Request) -> Result:
        await asyncio.sleep(7)
        return DONE

    reconciler = Scripted(a=[slow])
    controller = Controller(reconciler, ())
    stop = asyncio.Event()
    task = asyncio.create_task(controller.run(stop))
    controller.enqueue(A)
    await settle()
    controller.enqueue(B)
    assert controller.in_progress == [A]
    stop.set()
    started = now()
    await task
    assert now() - started == 7
    assert [name for name, _ in reconciler.runs] == ["a"]


@in_fake_time
async def test_workers_start_only_when_every_informer_has_synced() -> None:
    source, other = FakeSource(), FakeSource()
    reconciler = Scripted()
    async with running(reconciler, primary(source), primary(other)) as (controller, _):
        source.tell(Change(None, source.thing("a"), initial=True))
        source.sync()
        await asyncio.sleep(1)
        assert reconciler.runs == []
        assert not controller.started
        other.sync()
        await settle()
        assert [name for name, _ in reconciler.runs] == ["a"]


@in_fake_time
async def test_a_controller_whose_kind_is_not_served_waits_and_starts_by_itself() -> None:
    source = FakeSource(missing=True)
    reconciler = Scripted()
    with capture_logs() as lines:
        async with running(reconciler, primary(source)) as (controller, _):
            await asyncio.sleep(3600)
            assert not controller.started
            source.tell(Change(None, source.thing("a"), initial=True))
            source.sync()
            await settle()
            assert [name for name, _ in reconciler.runs] == ["a"]
    assert [(line["event"], line.get("kinds")) for line in lines] == [
        ("controller.waiting", ["things.example.com"]),
        ("controller.started", None),
    ]


@in_fake_time
async def test_a_controller_that_still_waits_stops_at_once() -> None:
    async with running(Scripted(), primary(FakeSource(missing=True))):
        await asyncio.sleep(60)


@in_fake_time
async def test_two_controllers_share_a_registry_and_keep_their_series_apart() -> None:
    metrics = Metrics()
    first, second = Scripted(), Scripted()
    second.name = "other"
    Controller(first, (), metrics=metrics)
    Controller(second, (), metrics=metrics)
    assert metrics.value("controller_runtime_reconcile_total", controller="scripted", result="success") == 0
    assert metrics.value("controller_runtime_reconcile_total", controller="other", result="success") == 0


@pytest.mark.parametrize(
    ("request_", "text"), [(Request("a"), "a"), (Request("a", "ns"), "ns/a")], ids=["cluster-scoped", "namespaced"]
)
def test_a_request_reads_as_kubectl_writes_it(request_: Request, text: str) -> None:
    assert str(request_) == text
