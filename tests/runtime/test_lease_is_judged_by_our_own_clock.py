"""Leader election: nobody steals a live lease, a dead one is taken, and whoever cannot renew stops in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from structlog.testing import capture_logs

from gpustack_op.runtime.errors import BadRequest, Conflict, TooManyRequests
from gpustack_op.runtime.leader_election import ElectionOptions, Elector
from gpustack_op.runtime.leases import LEASES, LeaseSpec
from gpustack_op.runtime.metrics import Metrics
from tests.runtime.fake_time import in_fake_time, now, settle
from tests.runtime.memory_api import ANSWER_LOST, HANG, MemoryApi, Slow

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Candidate:
    """One process that wants to lead. Its wall clock shows `at`."""

    def __init__(self, api: MemoryApi, identity: str) -> None:
        self.at = NOON
        self.losses: list[float] = []
        self.metrics = Metrics()
        self.elector = Elector(
            api,
            ElectionOptions("system", "lead", identity),
            lost=lambda: self.losses.append(now()),
            metrics=self.metrics,
            clock=lambda: self.at,
            jitter=lambda: 0.0,
        )

    async def lead(self) -> None:
        await self.elector.acquire()
        await self.elector.hold()

    @property
    def shows(self) -> float | None:
        return self.metrics.value("leader_election_master_status", name="lead")


@asynccontextmanager
async def leading(candidate: Candidate) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(candidate.lead())
    await settle()
    yield task
    task.cancel()
    await asyncio.wait((task,))


def record(api: MemoryApi) -> LeaseSpec:
    return api.read(LEASES, "lead", "system").spec


def foreign_lease(api: MemoryApi, holder: str, renewed: str = "2026-01-01T12:00:00.000000Z") -> None:
    metadata = {"name": "lead", "namespace": "system"}
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed, "acquireTime": renewed}
    api.put(LEASES, {"metadata": metadata, "spec": spec})


@in_fake_time
async def test_the_first_candidate_makes_the_lease_and_leads() -> None:
    api = MemoryApi()
    candidate = Candidate(api, "one")
    assert candidate.shows == 0
    async with leading(candidate):
        assert candidate.elector.leading
        assert candidate.shows == 1
        assert record(api).holder_identity == "one"
        assert record(api).lease_transitions == 0


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        pytest.param(NOON, "2026-01-01T12:00:00.000000Z", id="on a whole second"),
        pytest.param(NOON + timedelta(milliseconds=5), "2026-01-01T12:00:00.005000Z", id="on five milliseconds"),
    ],
)
def test_lease_times_always_have_six_digits(moment: datetime, text: str) -> None:
    @in_fake_time
    async def check() -> None:
        api = MemoryApi()
        candidate = Candidate(api, "one")
        candidate.at = moment
        async with leading(candidate):
            await asyncio.sleep(3)
            assert (record(api).acquire_time, record(api).renew_time) == (text, text)

    check()


@in_fake_time
async def test_a_holder_that_renews_with_a_clock_an_hour_behind_is_never_robbed() -> None:
    api = MemoryApi()
    holder, waiting = Candidate(api, "one"), Candidate(api, "two")
    holder.at = NOON - timedelta(hours=1)
    async with leading(holder), leading(waiting):
        for second in range(600):
            holder.at += timedelta(seconds=1)
            waiting.at += timedelta(seconds=-30 if second == 300 else 1)
            await asyncio.sleep(1)
        assert holder.elector.leading
        assert not waiting.elector.leading
        assert holder.losses == []


@in_fake_time
async def test_a_lease_stamped_in_the_future_is_taken_once_it_stood_still_before_our_eyes() -> None:
    api = MemoryApi()
    foreign_lease(api, "gone", renewed="2026-01-01T13:00:00.000000Z")
    candidate = Candidate(api, "two")
    started = now()
    async with leading(candidate):
        await asyncio.sleep(14.9)
        assert not candidate.elector.leading
        await asyncio.sleep(2.2)
        assert candidate.elector.leading
        assert now() - started == pytest.approx(17.1)
        assert record(api).holder_identity == "two"
        assert record(api).lease_transitions == 1


@in_fake_time
async def test_a_released_lease_is_taken_at_the_next_look() -> None:
    api = MemoryApi()
    foreign_lease(api, "")
    candidate = Candidate(api, "two")
    async with leading(candidate):
        assert candidate.elector.leading


@in_fake_time
async def test_release_hands_over_and_keeps_the_record_legal() -> None:
    api = MemoryApi()
    first, second = Candidate(api, "one"), Candidate(api, "two")
    async with leading(first), leading(second):
        await asyncio.sleep(5)
    async with leading(second):
        assert not second.elector.leading
        await first.elector.release()
        assert record(api).holder_identity == ""
        assert record(api).lease_duration_seconds == 1
        assert first.shows == 0
        await asyncio.sleep(2.1)
        assert second.elector.leading
    assert first.losses == []


@in_fake_time
async def test_whoever_does_not_lead_releases_nothing() -> None:
    api = MemoryApi()
    foreign_lease(api, "other")
    candidate = Candidate(api, "two")
    await candidate.elector.release()
    assert api.writes == []


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(HANG, id="requests hang"),
        pytest.param(TooManyRequests(429, "TooManyRequests", "slow down"), id="throttled"),
        pytest.param(ConnectionRefusedError("refused"), id="unreachable"),
    ],
)
def test_a_leader_that_cannot_renew_stops_before_the_lease_can_be_taken(trouble: object) -> None:
    @in_fake_time
    async def check() -> None:
        api = MemoryApi()
        leader = Candidate(api, "one")
        async with leading(leader):
            await asyncio.sleep(6.5)
            until = leader.elector.leads_until
            assert until is not None
            api.trouble("update", *[trouble] * 1000)
            api.trouble("get", *[trouble] * 1000)
            await asyncio.sleep(60)
            assert leader.losses == [pytest.approx(until)]
            writes = len(api.calls)
            await asyncio.sleep(600)
            assert len(api.calls) == writes
            assert leader.shows == 0

    check()


@in_fake_time
async def test_leadership_counts_from_when_the_renewal_was_sent() -> None:
    api = MemoryApi()
    leader = Candidate(api, "one")
    async with leading(leader):
        api.trouble("update", Slow(4))
        sent_at = now() + 2
        await asyncio.sleep(6.5)
        assert leader.elector.leads_until == pytest.approx(sent_at + 10)


@in_fake_time
async def test_between_an_old_and_a_new_leader_there_is_a_time_without_one() -> None:
    api = MemoryApi()
    old, new = Candidate(api, "one"), Candidate(api, "two")
    async with leading(old), leading(new):
        await asyncio.sleep(7)
        api.trouble("update", *[HANG] * 2)
        await asyncio.sleep(60)
        assert len(old.losses) == 1
        assert new.elector.leading
        assert record(api).holder_identity == "two"


@in_fake_time
async def test_a_leader_that_sees_another_holder_stops_at_once() -> None:
    api = MemoryApi()
    leader = Candidate(api, "one")
    async with leading(leader):
        await asyncio.sleep(1)
        foreign_lease(api, "thief")
        await asyncio.sleep(1.5)
        assert len(leader.losses) == 1


@in_fake_time
async def test_a_renewal_whose_answer_was_lost_is_recognised_as_ours() -> None:
    api = MemoryApi()
    leader = Candidate(api, "one")
    async with leading(leader):
        api.trouble("update", ANSWER_LOST)
        await asyncio.sleep(30)
        assert leader.losses == []
        assert leader.elector.leading


@in_fake_time
async def test_of_two_candidates_for_a_free_lease_one_leads() -> None:
    api = MemoryApi()
    one, two = Candidate(api, "one"), Candidate(api, "two")
    async with leading(one), leading(two):
        await asyncio.sleep(10)
        assert [one.elector.leading, two.elector.leading].count(True) == 1


@in_fake_time
async def test_a_conflict_on_taking_is_no_success() -> None:
    api = MemoryApi()
    foreign_lease(api, "")
    api.trouble("update", Conflict(409, "Conflict", "changed"))
    candidate = Candidate(api, "two")
    async with leading(candidate):
        assert not candidate.elector.leading


@in_fake_time
async def test_a_refused_lease_is_loud_once_and_shown_until_it_is_accepted() -> None:
    api = MemoryApi()
    api.trouble("create", *[BadRequest(400, "BadRequest", "bad time")] * 5)
    candidate = Candidate(api, "one")
    with capture_logs() as lines:
        async with leading(candidate):
            await asyncio.sleep(5)
            assert candidate.elector.problem == "lease system/lead refused: bad time"
            await asyncio.sleep(20)
            assert candidate.elector.problem is None
    assert [(line["event"], line["log_level"]) for line in lines] == [
        ("lease.refused", "error"),
        ("lease.acquired", "info"),
    ]


@pytest.mark.parametrize(
    "limits",
    [{"renew_deadline": 15.0}, {"retry": 10.0}, {"retry": 0.0}],
    ids=["deadline not below duration", "retry not below deadline", "no pause"],
)
def test_limits_that_would_let_two_lead_are_refused(limits: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="duration > renew_deadline > retry > 0"):
        ElectionOptions("system", "lead", "one", **limits)
