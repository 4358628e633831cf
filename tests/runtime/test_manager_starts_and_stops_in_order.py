"""The manager: order, drain, and what ends the process."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from gpustack_op.api.meta import PartialObject, Resource
from gpustack_op.runtime.address import split_address
from gpustack_op.runtime.controller import DONE, Controller, Request, Result
from gpustack_op.runtime.leader_election import ElectionOptions
from gpustack_op.runtime.leases import LEASES
from gpustack_op.runtime.manager import Manager, ManagerOptions, TaskDiedError
from gpustack_op.runtime.metrics import Metrics
from gpustack_op.runtime.watchdog import Watchdog
from tests.runtime.fake_time import block_loop, in_fake_time, now, settle
from tests.runtime.memory_api import HANG, MemoryApi

ELECTION = ElectionOptions("system", "lead", "me")


class Diary:
    """What happened, in order."""

    def __init__(self) -> None:
        self.entries: list[str] = []
        self.ends: list[int] = []
        self.ended = asyncio.Event()

    def __call__(self, entry: str) -> None:
        self.entries.append(entry)

    def end(self, code: int) -> None:
        self.entries.append("process ended")
        self.ends.append(code)
        self.ended.set()


class DiaryApi(MemoryApi):
    def __init__(self, diary: Diary) -> None:
        super().__init__()
        self.diary = diary

    async def create(self, *args: Any, **options: Any) -> Any:
        self.diary("lease taken")
        return await super().create(*args, **options)

    async def update(self, resource: Any, body: Any, **options: Any) -> Any:
        if not body["spec"]["holderIdentity"]:
            self.diary("lease released")
        return await super().update(resource, body, **options)


class FakeCaches:
    def __init__(self, diary: Diary, *, synced: bool = True) -> None:
        self.diary = diary
        self._synced = asyncio.Event()
        if synced:
            self._synced.set()

    def start(self, ended: Callable[[asyncio.Task[None]], None]) -> None:
        self.ended = ended
        self.diary("caches started")

    def die(self) -> None:
        """As if a mirror's task had failed."""

        async def mirror() -> None:
            raise ValueError("broken")

        self.mirror = asyncio.create_task(mirror(), name="reflector nodes")
        self.mirror.add_done_callback(self.ended)

    async def stop(self) -> None:
        self.diary("caches stopped")

    async def wait_synced(self) -> None:
        await self._synced.wait()
        self.diary("caches synced")

    def sync(self) -> None:
        self._synced.set()

    def unsynced(self) -> list[str]:
        return [] if self._synced.is_set() else ["nodes"]

    def missing(self) -> list[Resource[PartialObject]]:
        return []


class Webhooks:
    def __init__(self, diary: Diary) -> None:
        self.diary = diary

    async def prepare(self) -> None:
        self.diary("certificate ready")

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def start(self) -> None:
        self.diary("webhooks started")

    async def stop(self) -> None:
        self.diary("webhooks stopped")


class Work:
    """A runnable that takes `ending` seconds to end, or fails with `error` after a second."""

    def __init__(self, diary: Diary, name: str, *, ending: float = 0.0, error: Exception | None = None) -> None:
        self.diary, self.name, self.ending, self.error = diary, name, ending, error

    async def run(self, stop: asyncio.Event) -> None:
        self.diary(f"{self.name} started")
        if self.error is not None:
            await asyncio.sleep(1)
            raise self.error
        await stop.wait()
        await asyncio.sleep(self.ending)
        self.diary(f"{self.name} stopped")


class Slow:
    """A reconciler that takes an hour."""

    name = "slow"

    async def reconcile(self, _request: Request) -> Result:
        await asyncio.sleep(3600)
        return DONE


def manager(diary: Diary, caches: FakeCaches | None = None, api: MemoryApi | None = None, **options: Any) -> Manager:
    return Manager(
        api or DiaryApi(diary), caches or FakeCaches(diary), options=ManagerOptions(**options), end=diary.end
    )


async def started(made: Manager) -> asyncio.Task[None]:
    task = asyncio.create_task(made.run())
    await settle()
    return task


@in_fake_time
async def test_parts_start_and_stop_in_their_order() -> None:
    diary = Diary()
    made = manager(diary, election=ELECTION)
    webhooks = Webhooks(diary)
    made.add_webhooks(webhooks, webhooks)
    made.add_runnable(Work(diary, "leader's work"), needs_leader=True)
    made.add_runnable(Work(diary, "everybody's work"))
    task = await started(made)
    made.request_stop()
    await task
    assert diary.entries == [
        "certificate ready",
        "webhooks started",
        "caches started",
        "caches synced",
        "everybody's work started",
        "lease taken",
        "leader's work started",
        "leader's work stopped",
        "everybody's work stopped",
        "caches stopped",
        "webhooks stopped",
        "lease released",
    ]


@in_fake_time
async def test_a_standby_is_ready_and_serves_webhooks_but_does_no_leaders_work() -> None:
    diary = Diary()
    api = MemoryApi()
    foreign = {"metadata": {"name": "lead", "namespace": "system"}, "spec": {"holderIdentity": "other"}}
    api.put(LEASES, foreign)
    made = manager(diary, api=api, election=ELECTION)
    made.add_webhooks(Webhooks(diary))
    made.add_runnable(Work(diary, "work"), needs_leader=True)
    task = await started(made)
    assert made.readiness.answer().ready
    assert diary.entries == ["webhooks started", "caches started", "caches synced"]
    made.request_stop()
    await task
    assert api.writes == []


@in_fake_time
async def test_caches_that_do_not_sync_are_named_and_waited_for() -> None:
    diary = Diary()
    caches = FakeCaches(diary, synced=False)
    made = manager(diary, caches)
    made.add_runnable(Work(diary, "work"))
    with capture_logs() as lines:
        task = await started(made)
        assert made.readiness.answer().text == "not synced: nodes\n"
        await asyncio.sleep(20)
        assert "work started" not in diary.entries
        caches.sync()
        await settle()
        assert "work started" in diary.entries
        made.request_stop()
        await task
    assert [line["kinds"] for line in lines if line["event"] == "manager.waiting_for_caches"] == [["nodes"]]


@in_fake_time
async def test_a_stop_during_the_start_ends_it() -> None:
    diary = Diary()
    made = manager(diary, FakeCaches(diary, synced=False))
    task = await started(made)
    made.request_stop()
    await task
    assert diary.entries == ["caches started", "caches stopped"]


@in_fake_time
async def test_work_that_ends_within_the_grace_period_is_not_cut() -> None:
    diary = Diary()
    made = manager(diary, grace_period=20.0)
    made.add_runnable(Work(diary, "work", ending=15), needs_leader=True)
    task = await started(made)
    made.request_stop()
    await task
    assert "work stopped" in diary.entries


@in_fake_time
async def test_work_that_does_not_end_is_cut_off_and_named() -> None:
    diary = Diary()
    made = manager(diary, grace_period=20.0, election=ELECTION)
    controller = Controller(Slow(), ())
    made.add_controller(controller)
    with capture_logs() as lines:
        task = await started(made)
        controller.enqueue(Request("a", "ns"))
        await settle()
        stopping_at = now()
        made.request_stop()
        await task
    assert now() - stopping_at == pytest.approx(20)
    assert [line["work"] for line in lines if line["event"] == "manager.did_not_stop"] == [["slow: ns/a"]]
    assert diary.entries[-1] == "lease released"


@in_fake_time
async def test_the_lease_is_kept_while_some_work_cannot_be_stopped() -> None:
    class Stubborn:
        name = "stubborn"

        async def run(self, _stop: asyncio.Event) -> None:
            until = now() + 3600
            while now() < until:
                try:
                    await asyncio.sleep(until - now())
                except asyncio.CancelledError:
                    continue

    diary = Diary()
    made = manager(diary, election=ELECTION)
    made.add_runnable(Stubborn(), needs_leader=True)
    with capture_logs() as lines:
        task = await started(made)
        made.request_stop()
        await task
    assert [line["work"] for line in lines if line["event"] == "manager.cannot_stop"] == [["stubborn"]]
    assert "lease released" not in diary.entries


@in_fake_time
async def test_a_task_that_dies_ends_the_program_and_says_which() -> None:
    diary = Diary()
    made = manager(diary)
    made.add_runnable(Work(diary, "mortal", error=ValueError("bad luck")))
    with capture_logs() as lines, pytest.raises(TaskDiedError, match="mortal died: bad luck"):
        await made.run()
    assert [line["task"] for line in lines if line["event"] == "manager.task_died"] == ["mortal"]
    assert made.liveness.problem() == "dead: mortal"
    assert diary.entries[-1] == "caches stopped"


@in_fake_time
async def test_a_mirror_that_dies_ends_the_program_too() -> None:
    diary = Diary()
    caches = FakeCaches(diary)
    made = manager(diary, caches=caches)
    task = await started(made)
    caches.die()
    with capture_logs(), pytest.raises(TaskDiedError, match="reflector nodes died: broken"):
        await task
    assert made.liveness.problem() == "dead: reflector nodes"


@in_fake_time
async def test_losing_the_lease_ends_the_process_at_once() -> None:
    diary = Diary()
    api = MemoryApi()
    made = manager(diary, api=api, election=ELECTION)
    made.add_runnable(Work(diary, "work"), needs_leader=True)
    task = await started(made)
    api.trouble("update", *[HANG] * 100)
    api.trouble("get", *[HANG] * 100)
    await asyncio.sleep(30)
    assert diary.ends == [1]
    assert diary.entries[-1] == "process ended"
    made.request_stop()
    await task


@in_fake_time
async def test_what_cannot_start_is_stopped_again_and_raised() -> None:
    class NoPort(Webhooks):
        async def start(self) -> None:
            raise OSError("address in use")

    diary = Diary()
    made = manager(diary)
    made.add_webhooks(NoPort(diary))
    with pytest.raises(OSError, match="address in use"):
        await made.run()
    assert diary.entries == ["webhooks stopped"]


async def test_sigterm_stops_in_order_and_a_second_one_at_once() -> None:
    diary = Diary()
    made = manager(diary, metrics_bind="127.0.0.1:0", health_bind="127.0.0.1:0")
    running = asyncio.Event()

    class Ending:
        name = "ending"

        async def run(self, stop: asyncio.Event) -> None:
            running.set()
            await stop.wait()
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait_for(diary.ended.wait(), 10)

    made.add_runnable(Ending())
    task = asyncio.create_task(made.run())
    await asyncio.wait_for(running.wait(), 10)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(task, 10)
    assert diary.ends == [1]


@in_fake_time
async def test_a_manager_can_be_built_twice_in_one_process() -> None:
    for _ in range(2):
        diary = Diary()
        made = manager(diary, election=ELECTION)
        made.add_controller(Controller(Slow(), ()))
        task = await started(made)
        made.request_stop()
        await task
        assert made.metrics.value("controller_runtime_max_concurrent_reconciles", controller="slow") == 1


@in_fake_time
async def test_controllers_get_the_registry_of_their_manager() -> None:
    metrics = Metrics()
    diary = Diary()
    made = Manager(DiaryApi(diary), FakeCaches(diary), options=ManagerOptions(), metrics=metrics, end=diary.end)
    controller = Controller(Slow(), ())
    made.add_controller(controller)
    controller.enqueue(Request("a"))
    assert metrics.value("workqueue_depth", name="slow", controller="slow") == 1


def test_the_watchdog_ends_a_process_whose_loop_is_blocked_past_its_leadership() -> None:
    expired = threading.Event()
    watchdog = Watchdog(lambda: 100.0, expired.set, clock=lambda: 101.0, pause=0.01)
    watchdog.start()
    assert expired.wait(10)  # in the loop's own thread, which is blocked meanwhile
    watchdog.stop()


@in_fake_time
async def test_a_loop_that_was_blocked_past_the_deadline_does_not_lead_on() -> None:
    diary = Diary()
    made = manager(diary, election=ELECTION)
    task = await started(made)
    block_loop(60)
    await asyncio.sleep(0)
    await settle()
    assert diary.ends == [1]
    made.request_stop()
    await task


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)),
        (":8080", ("0.0.0.0", 8080)),
        ("[::]:8080", ("::", 8080)),
        ("localhost:0", ("localhost", 0)),
    ],
)
def test_addresses_are_host_and_port(text: str, address: tuple[str, int]) -> None:
    assert split_address(text) == address


@pytest.mark.parametrize("text", ["8080", "host:", "host:port", "host:70000", ""])
def test_what_is_no_address_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not host:port"):
        split_address(text)
