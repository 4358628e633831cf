"""Events: series, filter, legal names, and refusals that hurt nobody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from gpustack_op.api.meta import PartialObject, Resource
from gpustack_op.runtime.errors import Forbidden, InternalError, NotFound
from gpustack_op.runtime.event_objects import ObjectReference, Occurrence, event_body, event_name, reference
from gpustack_op.runtime.events import Recorder
from gpustack_op.runtime.metrics import Metrics
from tests.runtime.fake_time import in_fake_time, settle
from tests.runtime.memory_api import ANSWER_LOST, MemoryApi
from tests.runtime.things import THINGS, Thing, thing

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NODE = ObjectReference("v1", "Node", "n1", uid="node-uid")
FORBIDDEN = Forbidden(403, "Forbidden", "no")


class Node(PartialObject, frozen=True, gc=False, kw_only=True):
    pass


@asynccontextmanager
async def recording(api: MemoryApi, **options: Any) -> AsyncIterator[tuple[Recorder, Metrics]]:
    metrics = Metrics()
    recorder = Recorder(
        api, controller="gpustack.ai/operator", instance="pod-1", metrics=metrics, clock=lambda: NOON, **options
    )
    stop = asyncio.Event()
    task = asyncio.create_task(recorder.run(stop))
    yield recorder, metrics
    stop.set()
    await task


def tell(recorder: Recorder, note: str = "it broke", *, regarding: ObjectReference = NODE) -> None:
    recorder.event(regarding, "Warning", "Broken", note, action="Repair")


def stored(api: MemoryApi) -> list[dict[str, Any]]:
    return list(api.objects.values())


def outcome(metrics: Metrics, name: str) -> float | None:
    return metrics.value("gpustack_events_total", outcome=name)


@in_fake_time
async def test_an_event_on_a_cluster_scoped_object_goes_to_default() -> None:
    api = MemoryApi()
    async with recording(api) as (recorder, _):
        tell(recorder)
    (event,) = stored(api)
    assert event["metadata"]["namespace"] == "default"
    assert event["metadata"]["name"].startswith("n1.")
    assert event["eventTime"] == "2026-01-01T12:00:00.000000Z"
    assert event["regarding"] == {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "node-uid"}
    assert (event["type"], event["reason"], event["action"], event["note"]) == (
        "Warning",
        "Broken",
        "Repair",
        "it broke",
    )
    assert (event["reportingController"], event["reportingInstance"]) == ("gpustack.ai/operator", "pod-1")


def test_a_cached_object_is_named_by_its_resource_or_by_its_projection() -> None:
    present = msgspec.convert(thing("a", 1), Thing)
    assert reference(present, THINGS) == ObjectReference("example.com/v1", "Thing", "a", "a", "uid-a")
    assert reference(Node()).kind == "Node"
    assert reference(present, Resource("g", "v2", "others", "Other", Thing)).kind == "Other"


@in_fake_time
async def test_an_event_on_a_namespaced_object_goes_to_its_namespace() -> None:
    api = MemoryApi()
    async with recording(api) as (recorder, _):
        present = msgspec.convert(thing("a", 1), Thing)
        recorder.event(present, "Normal", "Made", "made", action="Make", resource=THINGS)
    assert [event["metadata"]["namespace"] for event in stored(api)] == ["a"]


@in_fake_time
async def test_equal_events_become_one_with_a_count() -> None:
    api = MemoryApi()
    async with recording(api) as (recorder, _):
        tell(recorder)
        await settle()
        for _ in range(100):
            tell(recorder)
            await asyncio.sleep(0.1)
        assert api.writes == ["create", "merge_patch"]
        await asyncio.sleep(60)
        assert api.writes == ["create", "merge_patch", "merge_patch"]
    (event,) = stored(api)
    assert event["series"] == {"count": 101, "lastObservedTime": "2026-01-01T12:00:00.000000Z"}


@in_fake_time
async def test_after_a_pause_the_same_event_is_a_new_one() -> None:
    api = MemoryApi()
    async with recording(api) as (recorder, _):
        tell(recorder)
        await asyncio.sleep(361)
        tell(recorder)
    assert len(stored(api)) == 2


@in_fake_time
async def test_another_note_is_another_event() -> None:
    api = MemoryApi()
    async with recording(api) as (recorder, _):
        tell(recorder, "one")
        tell(recorder, "two")
    assert sorted(event["note"] for event in stored(api)) == ["one", "two"]


@in_fake_time
async def test_one_noisy_object_is_filtered_and_others_are_heard() -> None:
    api = MemoryApi()
    async with recording(api) as (recorder, metrics):
        for number in range(100):
            tell(recorder, f"note {number}")
        tell(recorder, regarding=ObjectReference("v1", "Node", "n2"))
        await asyncio.sleep(1)
        assert outcome(metrics, "filtered") == 75
        assert outcome(metrics, "sent") == 26
        await asyncio.sleep(300)
        tell(recorder, "one more")
        await asyncio.sleep(1)
        assert outcome(metrics, "sent") == 27


@in_fake_time
async def test_a_refused_event_fails_nobody_and_is_told_once() -> None:
    api = MemoryApi()
    api.trouble("create", FORBIDDEN, FORBIDDEN)
    with capture_logs() as lines:
        async with recording(api) as (recorder, metrics):
            tell(recorder, "one")
            tell(recorder, "two")
            await asyncio.sleep(60)
            tell(recorder, "three")
            await asyncio.sleep(1)
            assert outcome(metrics, "refused") == 2
    assert [event["note"] for event in stored(api)] == ["three"]
    assert [line["event"] for line in lines] == ["events.refused", "events.accepted_again"]


@in_fake_time
async def test_a_refused_event_is_written_when_it_happens_again() -> None:
    api = MemoryApi()
    api.trouble("create", FORBIDDEN)
    async with recording(api) as (recorder, _):
        tell(recorder)
        await asyncio.sleep(1)
        tell(recorder)
    assert len(stored(api)) == 1


@in_fake_time
async def test_a_passing_failure_is_tried_again() -> None:
    api = MemoryApi()
    api.trouble("create", ConnectionResetError("reset"), InternalError(500, "InternalError", "oops"))
    async with recording(api) as (recorder, metrics):
        tell(recorder)
        await asyncio.sleep(10)
        assert outcome(metrics, "sent") == 1
    assert len(stored(api)) == 1


@in_fake_time
async def test_a_lost_answer_makes_no_second_event() -> None:
    api = MemoryApi()
    api.trouble("create", ANSWER_LOST)
    async with recording(api) as (recorder, metrics):
        tell(recorder)
        await asyncio.sleep(10)
        assert outcome(metrics, "sent") == 1
    assert len(stored(api)) == 1


@in_fake_time
async def test_a_series_whose_event_has_expired_is_made_anew() -> None:
    api = MemoryApi()
    async with recording(api) as (recorder, _):
        tell(recorder)
        await settle()
        api.objects.clear()
        api.trouble("merge_patch", NotFound(404, "NotFound", "expired"))
        tell(recorder)
    assert [event["series"]["count"] for event in stored(api)] == [2]


@in_fake_time
async def test_a_full_queue_drops_events_and_never_waits() -> None:
    api = MemoryApi()
    async with recording(api, queue_size=3) as (recorder, metrics):
        for number in range(5):
            tell(recorder, regarding=ObjectReference("v1", "Node", f"n{number}"))
        await settle()
        assert outcome(metrics, "dropped") == 2
    assert len(stored(api)) == 3


@in_fake_time
async def test_what_is_queued_at_a_stop_is_still_written() -> None:
    api = MemoryApi()
    recorder = Recorder(api, controller="c", instance="i")
    stop = asyncio.Event()
    stop.set()
    tell(recorder)
    await recorder.run(stop)
    assert len(stored(api)) == 1


@pytest.mark.parametrize(
    ("controller", "accepted"),
    [
        pytest.param("gpustack.ai/operator", "gpustack.ai/operator", id="as it is"),
        pytest.param("gpustack.ai/" + "c" * 80, "gpustack.ai/" + "c" * 63, id="63 characters after the slash"),
        pytest.param("c" * 62 + "--x", "c" * 62, id="no dash at the end"),
    ],
)
def test_names_of_reporters_are_cut_to_what_the_server_takes(controller: str, accepted: str) -> None:
    occurrence = Occurrence(NODE, "Normal", "r" * 200, "a" * 200, "ü" * 1000)
    body = event_body(occurrence, name="n", time="t", controller=controller, instance="h" * 60 + "-pod-" + "x" * 100)
    assert body["reportingController"] == accepted
    assert len(body["reportingInstance"].encode()) == 128
    assert len(body["reason"].encode()) <= 128
    assert len(body["action"].encode()) <= 128
    assert body["note"] == "ü" * 510 + "…"


def test_event_names_are_legal_whatever_the_length_of_the_object() -> None:
    assert event_name(NODE, "ab12") == "n1.ab12"
    long = ObjectReference("v1", "Node", "n" * 247 + ".-" + "x" * 4)
    assert event_name(long, "ab12") == "n" * 247 + ".ab12"
