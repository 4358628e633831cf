"""Whatever fails after a reservation is taken back, and a valid call for the same card works at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from gpustack_op.agent.injection.base import InjectionError
from gpustack_op.agent.partitions.driver import PartitionError
from gpustack_op.agent.partitions.markers import Marker, Owner
from gpustack_op.agent.partitions.materialise import How, Made, Wanted
from gpustack_op.agent.plugin.refusal import Code, RefusalError
from gpustack_op.api.core import PODS
from gpustack_op.runtime.errors import Forbidden, InternalError, ServiceUnavailable
from gpustack_op.scheduling.manufacturers import Family
from tests.builders import H100_PROFILES, cards_of, given, pod, slice_entry, whole_entry
from tests.runtime.memory_api import ANSWER_LOST, HANG
from tests.runtime.plugin_stand import RESOURCES, Stand, ids, slices, whole
from tests.waiting import until

WAITS: dict[str, Any] = {"phase": "Pending"}
X = "x/0"
DOWN = ServiceUnavailable(503, "ServiceUnavailable", "the server is down")


@pytest.fixture
async def stand() -> Stand:
    made = Stand(cards_of("x", 1))
    made.add(pod("p", whole(), **WAITS), pod("q", whole(), **WAITS))
    return made


async def refused(stand: Stand, name: str = "p", family: Family = Family.EXCLUSIVE) -> RefusalError:
    with pytest.raises(RefusalError) as caught:
        await stand.admit(name, family, ids(X))
    stand.kubelet.pods.clear()
    return caught.value


async def works_at_once(stand: Stand) -> bool:
    stand.api.no_trouble()
    await stand.admit("q", Family.EXCLUSIVE, ids(X))
    return stand.record("q") == given(whole_entry(X), ids=ids(X)) and stand.annotation("p") is None


async def test_an_unknown_id(stand: Stand) -> None:
    with pytest.raises(RefusalError, match="x/9"):
        await stand.admit("p", Family.EXCLUSIVE, ids("x/9"))
    stand.kubelet.pods.clear()
    assert await works_at_once(stand)


async def test_a_record_that_is_refused(stand: Stand) -> None:
    stand.api.trouble("merge_patch", Forbidden(403, "Forbidden", "no"))
    error = await refused(stand)
    assert error.code is Code.INTERNAL
    assert error.sentence.startswith("what Pod default/p was given cannot be recorded: ")
    assert await works_at_once(stand)


async def test_a_pod_that_is_gone(stand: Stand) -> None:
    stand.cache.lag()
    del stand.api.objects[(PODS.plural, "default", "p")]
    stand.kubelet.admits("p")
    with pytest.raises(RefusalError) as caught:
        await stand.desk(Family.EXCLUSIVE).allocate(ids(X))
    assert caught.value.code is Code.INTERNAL
    stand.kubelet.pods.clear()
    await stand.admit("q", Family.EXCLUSIVE, ids(X))
    assert stand.row(X).mode == Family.EXCLUSIVE


async def test_a_pod_of_that_name_that_came_after(stand: Stand) -> None:
    stand.cache.lag()
    body = stand.api.objects.pop((PODS.plural, "default", "p"))
    stand.api.put(PODS, {**body, "metadata": {**body["metadata"], "uid": "another"}})
    assert (await refused(stand)).code is Code.INTERNAL
    assert stand.annotation("p") is None


async def test_a_server_that_is_down_for_a_moment_is_waited_for(stand: Stand) -> None:
    stand.api.trouble("merge_patch", DOWN, InternalError(500, "InternalError", "oops"), ConnectionResetError())
    await stand.admit("p", Family.EXCLUSIVE, ids(X))
    assert stand.record("p") == given(whole_entry(X), ids=ids(X))


async def test_a_server_that_stays_down(stand: Stand) -> None:
    stand.restart(patience=0)
    stand.api.trouble("merge_patch", DOWN)
    assert (await refused(stand)).code is Code.INTERNAL
    assert await works_at_once(stand)


async def test_an_answer_that_was_lost_is_given_back_although_it_was_written(stand: Stand) -> None:
    stand.restart(patience=0)
    stand.api.trouble("merge_patch", ANSWER_LOST)
    await refused(stand)
    assert stand.annotation("p") is not None
    assert stand.row(X).mode == Family.NONE
    await stand.bookkeeper.settle()
    assert await works_at_once(stand)


async def _is_writing(stand: Stand) -> bool:
    return "merge_patch" in stand.api.writes


async def test_a_call_that_is_cut_off(stand: Stand) -> None:
    stand.api.trouble("merge_patch", HANG)
    stand.kubelet.admits("p")
    call = asyncio.create_task(stand.desk(Family.EXCLUSIVE).allocate(ids(X)))
    await until(lambda: _is_writing(stand), every=0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    stand.kubelet.pods.clear()
    assert stand.row(X).mode == Family.NONE
    assert await works_at_once(stand)


@pytest.mark.parametrize(
    "trouble",
    [InjectionError("folder /pods cannot be made: no space left on device"), OSError(28, "no space"), ValueError("?")],
    ids=["a folder that cannot be made", "a full disk", "a defect"],
)
async def test_an_injection_that_fails(stand: Stand, trouble: Exception) -> None:
    stand.tray.trouble = trouble
    stand.kubelet.admits("p")
    with pytest.raises((RefusalError, type(trouble))):
        await stand.desk(Family.EXCLUSIVE).allocate(ids(X))
    stand.kubelet.pods.clear()
    assert stand.row(X).mode == Family.NONE
    await stand.bookkeeper.settle()
    assert await works_at_once(stand)


async def test_what_is_owed_is_paid_when_the_server_is_back_and_counts_until_then(stand: Stand) -> None:
    stand.tray.trouble = InjectionError("no")
    await refused(stand)
    stand.api.trouble("merge_patch", DOWN)
    await stand.bookkeeper.settle()
    assert stand.annotation("p") is not None
    assert stand.row(X).mode == Family.NONE
    await stand.bookkeeper.settle()
    assert stand.annotation("p") is None
    assert not stand.books.reservations.owed


async def test_what_is_owed_does_not_undo_a_later_success(stand: Stand) -> None:
    stand.tray.trouble = InjectionError("no")
    await refused(stand)
    await stand.admit("p", Family.EXCLUSIVE, ids(X))
    await stand.bookkeeper.settle()
    await stand.bookkeeper.settle()
    assert stand.record("p") == given(whole_entry(X), ids=ids(X))


async def test_what_a_container_held_before_is_put_back() -> None:
    stand = Stand(cards_of("x", 1))
    before = given(slice_entry(X, 20), ids=ids(X, index=20))
    stand.add(pod("p", slices(60), record=before, **WAITS))
    stand.tray.trouble = InjectionError("no")
    await refused(stand, family=Family.SLICED)
    assert stand.percent(X) == 20
    await stand.bookkeeper.settle()
    assert stand.record("p") == before


# --- Partitions -------------------------------------------------------------------------------------------------------


class Carver:
    """The keeper of partitions, which makes what is wanted or fails."""

    def __init__(self) -> None:
        self.trouble: Exception | None = None
        self.rolled_back: list[Made] = []

    async def materialise(self, wanted: Sequence[Wanted]) -> tuple[Made, ...]:
        if self.trouble:
            raise self.trouble
        return tuple(Made(How.CREATED, _marker(one)) for one in wanted)

    async def roll_back(self, made: Sequence[Made]) -> None:
        self.rolled_back += made

    async def identify(self, owner: Owner, cards: Sequence[str]) -> tuple[str, ...]:
        return tuple(f"MIG-{card}" for card in cards)


def _marker(one: Wanted) -> Marker:
    assert one.place is not None
    return Marker(
        pod=one.owner.pod,
        container=one.owner.container,
        card=one.card,
        profile=one.profile,
        uuid=f"MIG-{one.card}",
        start=one.place.start,
        length=one.place.length,
    )


def partition(profile: str, number: int = 1) -> dict[str, str]:
    name = RESOURCES[Family.PARTITIONED]
    return {name: str(number), f"{name}.mig-{profile}": str(number)}


@pytest.fixture
async def carver() -> Carver:
    return Carver()


@pytest.fixture
async def carved(carver: Carver) -> Stand:
    made = Stand(cards_of("x", 2, profiles=H100_PROFILES, memory=81559), partitions=carver)
    made.add(pod("p", partition("3g.40gb"), **WAITS))
    return made


async def test_a_partition_is_recorded_as_it_was_made(carved: Stand) -> None:
    await carved.admit("p", Family.PARTITIONED, ids("x/1"))
    entry = carved.record("p")["main"].entries[0]
    assert (entry.profile, entry.partition_id, entry.card) == ("3g.40gb", "MIG-x/0", "x/0")
    assert carved.tray.grants[0].partitions == ("MIG-x/0",)


async def test_partitions_of_one_container_are_on_different_cards(carved: Stand) -> None:
    carved.add(pod("two", partition("1g.10gb", 2), **WAITS))
    await carved.admit("two", Family.PARTITIONED, ["x:x/0:0001", "x:x/0:0002"])
    assert [entry.card for entry in carved.record("two")["main"].entries] == ["x/0", "x/1"]


async def test_too_few_cards_with_room(carved: Stand) -> None:
    carved.add(pod("three", partition("1g.10gb", 3), **WAITS))
    with pytest.raises(RefusalError) as caught:
        await carved.admit("three", Family.PARTITIONED, [*ids("x/0", "x/1"), "x:x/0:0001"])
    assert caught.value.code is Code.RESOURCE_EXHAUSTED


async def test_a_request_without_a_profile(carved: Stand) -> None:
    carved.add(pod("bare", {RESOURCES[Family.PARTITIONED]: "2"}, **WAITS))
    with pytest.raises(RefusalError) as caught:
        await carved.admit("bare", Family.PARTITIONED, ids("x/0", "x/1"))
    assert caught.value.code is Code.FAILED_PRECONDITION


async def test_a_partition_that_cannot_be_made(carved: Stand, carver: Carver) -> None:
    carver.trouble = PartitionError("the driver says no")
    error = await refused(carved, family=Family.PARTITIONED)
    assert (error.code, error.sentence) == (Code.INTERNAL, "the driver says no")
    assert carved.row(X).mode == Family.NONE
    assert carved.api.writes == []


async def test_a_partition_that_cannot_be_recorded_is_taken_down(carved: Stand, carver: Carver) -> None:
    carved.api.trouble("merge_patch", Forbidden(403, "Forbidden", "no"))
    await refused(carved, family=Family.PARTITIONED)
    assert [one.marker.card for one in carver.rolled_back] == [X]
    assert carved.row(X).mode == Family.NONE


async def test_a_helper_sees_the_partition_not_the_card(carved: Stand) -> None:
    carved.add(pod("h", partition("1g.10gb"), {RESOURCES[Family.VISIBILITY]: "1"}, **WAITS))
    await carved.admit("h", Family.PARTITIONED, ids("x/1"))
    await carved.admit("h", Family.VISIBILITY, ids("x/1"), container="c1")
    assert carved.tray.grants[-1].partitions == ("MIG-x/0",)
