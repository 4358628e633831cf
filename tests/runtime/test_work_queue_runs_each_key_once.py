"""The work queue: no key twice at once, none lost, none moved later by being added again."""

from __future__ import annotations

import asyncio

import pytest

from gpustack_op.runtime.metrics import Metrics
from gpustack_op.runtime.rate_limits import KeyBackoff, TokenBucket
from gpustack_op.runtime.workqueue import LOW, ShutDownError, WorkQueue
from tests.runtime.fake_time import in_fake_time, now


def queue(**options: object) -> WorkQueue[str]:
    return WorkQueue("test", **options)  # type: ignore[arg-type]


async def fail(keys: WorkQueue[str], key: str, times: int) -> None:
    """Run the key and fail, so many times."""
    for _ in range(times):
        assert await keys.get() == key
        keys.add_rate_limited(key)
        keys.done(key)


@in_fake_time
async def test_a_key_added_twice_is_handed_out_once() -> None:
    keys = queue()
    keys.add("a")
    keys.add("a")
    assert len(keys) == 1
    assert await keys.get() == "a"
    assert len(keys) == 0


@in_fake_time
async def test_keys_come_in_the_order_they_were_added() -> None:
    keys = queue()
    keys.add("a")
    keys.add("b")
    keys.add("a")
    assert [await keys.get(), await keys.get()] == ["a", "b"]


@in_fake_time
async def test_a_key_in_work_is_not_handed_out_a_second_time_until_it_is_done() -> None:
    keys = queue()
    keys.add("a")
    assert await keys.get() == "a"
    keys.add("a")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(keys.get(), 3600)
    keys.done("a")
    assert await keys.get() == "a"


@in_fake_time
async def test_a_thousand_adds_during_the_work_give_one_more_run() -> None:
    keys = queue()
    keys.add("k")
    await keys.get()
    for _ in range(1000):
        keys.add("k")
    keys.done("k")
    assert await keys.get() == "k"
    keys.done("k")
    assert len(keys) == 0


@in_fake_time
async def test_an_event_runs_a_key_that_is_backing_off_at_once_and_only_once() -> None:
    keys = queue(backoff=KeyBackoff(base=1, cap=1000))
    keys.add("k")
    await fail(keys, "k", 6)
    failed_at = now()
    keys.add("k")
    assert await keys.get() == "k"
    assert now() == failed_at
    keys.done("k")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(keys.get(), 3600)


@in_fake_time
async def test_five_hundred_rate_limited_adds_of_one_key_are_one_wait() -> None:
    metrics = Metrics()
    keys = queue(metrics=metrics, backoff=KeyBackoff(base=0.5, cap=1000), bucket=TokenBucket(rate=10, burst=100))
    keys.add("k")
    await keys.get()
    for _ in range(500):
        keys.add_rate_limited("k")
    keys.done("k")
    started = now()
    assert await keys.get() == "k"
    assert now() - started == pytest.approx(0.5)
    assert keys.failures("k") == 1
    assert metrics.value("workqueue_retries_total", name="test", controller="test") == 1


@in_fake_time
async def test_back_off_doubles_up_to_its_cap_and_starts_anew_after_a_success() -> None:
    keys = queue(backoff=KeyBackoff(base=1, cap=5))
    keys.add("k")
    waits = []
    for _ in range(5):
        started = now()
        await fail(keys, "k", 1)
        waits.append(now() - started)
    assert waits == [0, 1, 2, 4, 5]
    keys.forget("k")
    await fail(keys, "k", 1)
    started = now()
    await keys.get()
    assert now() - started == 1


@in_fake_time
async def test_the_overall_bucket_limits_many_failing_keys_together() -> None:
    keys = queue(backoff=KeyBackoff(base=0.001), bucket=TokenBucket(rate=10, burst=2))
    names = ["a", "b", "c", "d"]
    for name in names:
        keys.add(name)
        await fail(keys, name, 1)
    started, times = now(), []
    for _ in names:
        await keys.get()
        times.append(round(now() - started, 3))
    assert times == [0.001, 0.001, 0.1, 0.2]


@pytest.mark.parametrize(
    ("first", "second"),
    [pytest.param(5, 30, id="a later wait changes nothing"), pytest.param(30, 5, id="an earlier wait wins")],
)
def test_among_waits_for_one_key_the_earliest_wins(first: float, second: float) -> None:
    @in_fake_time
    async def check() -> None:
        keys = queue()
        keys.add_after("k", first)
        keys.add_after("k", second)
        started = now()
        await keys.get()
        assert now() - started == 5
        keys.done("k")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(keys.get(), 3600)

    check()


@in_fake_time
async def test_a_wait_of_no_time_is_an_add() -> None:
    keys = queue()
    keys.add_after("k", 0)
    assert len(keys) == 1


@in_fake_time
async def test_live_events_come_before_the_initial_list() -> None:
    keys = queue()
    keys.add("listed-1", priority=LOW)
    keys.add("listed-2", priority=LOW)
    keys.add("live")
    assert [await keys.get(), await keys.get(), await keys.get()] == ["live", "listed-1", "listed-2"]


@in_fake_time
async def test_a_live_event_lifts_a_key_of_the_initial_list() -> None:
    keys = queue()
    keys.add("a", priority=LOW)
    keys.add("b", priority=LOW)
    keys.add("b")
    keys.add("b", priority=LOW)
    assert [await keys.get(), await keys.get()] == ["b", "a"]
    assert len(keys) == 0


@in_fake_time
async def test_shut_down_wakes_every_waiting_worker_and_refuses_later_adds() -> None:
    keys = queue()
    workers = [asyncio.create_task(keys.get()) for _ in range(3)]
    await asyncio.sleep(0)
    keys.add_after("later", 5)
    keys.shut_down()
    for worker in workers:
        with pytest.raises(ShutDownError):
            await worker
    keys.add("too late")
    assert len(keys) == 0


@in_fake_time
async def test_a_drain_hands_out_what_is_queued_and_then_ends() -> None:
    keys = queue()
    keys.add("a")
    keys.shut_down(drain=True)
    assert await keys.get() == "a"
    with pytest.raises(ShutDownError):
        await keys.get()


@in_fake_time
async def test_idle_waits_for_the_keys_in_work() -> None:
    keys = queue()
    keys.add("a")
    await keys.get()
    keys.shut_down()
    idle = asyncio.create_task(keys.idle())
    await asyncio.sleep(1)
    assert not idle.done()
    keys.done("a")
    await idle


@in_fake_time
async def test_a_worker_that_is_cancelled_loses_no_key() -> None:
    keys = queue()
    first, second = asyncio.create_task(keys.get()), asyncio.create_task(keys.get())
    await asyncio.sleep(0)
    keys.add("a")
    first.cancel()
    assert await second == "a"


@in_fake_time
async def test_metrics_bear_the_names_of_client_go() -> None:
    metrics = Metrics()
    keys = queue(metrics=metrics)
    labels = {"name": "test", "controller": "test"}
    keys.add("a")
    keys.add("a")
    keys.add("b")
    assert metrics.value("workqueue_depth", **labels) == 2
    assert metrics.value("workqueue_adds_total", **labels) == 2
    await asyncio.sleep(3)
    await keys.get()
    assert metrics.value("workqueue_queue_duration_seconds_sum", **labels) == 3
    await asyncio.sleep(4)
    await keys.get()
    await asyncio.sleep(1)
    assert metrics.value("workqueue_unfinished_work_seconds", **labels) == 6
    assert metrics.value("workqueue_longest_running_processor_seconds", **labels) == 5
    keys.done("a")
    assert metrics.value("workqueue_work_duration_seconds_sum", **labels) == 5
    assert metrics.value("workqueue_depth", **labels) == 0
