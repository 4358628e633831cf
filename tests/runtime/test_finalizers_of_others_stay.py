"""Our finalizer is set and lifted; whoever else changes the list at the same time loses nothing."""

from __future__ import annotations

from typing import Any

import pytest

from gpustack_op.runtime.errors import Conflict, Invalid, NotFound
from gpustack_op.runtime.finalizers import ATTEMPTS, add_finalizer, remove_finalizer
from gpustack_op.runtime.reconciler import TryAgainError
from tests.runtime.memory_api import MemoryApi
from tests.runtime.things import THINGS, Thing, thing

OURS = "example.com/ours"


def stored(api: MemoryApi, *finalizers: str, **metadata: Any) -> Thing:
    api.put(THINGS, thing("t", 1, finalizers=list(finalizers), **metadata))
    return api.read(THINGS, "t", "a")


def left(api: MemoryApi) -> list[str]:
    return list(api.read(THINGS, "t", "a").metadata.finalizers or ())


async def test_ours_is_removed_and_others_stay() -> None:
    api = MemoryApi()
    changed = await remove_finalizer(api, THINGS, stored(api, "other", OURS, "third"), OURS)
    assert changed is not None
    assert left(api) == ["other", "third"]


async def test_an_entry_that_another_removed_meanwhile_is_not_paid_for_by_a_third() -> None:
    api = MemoryApi()
    seen = stored(api, "other", OURS, "third")
    stored(api, OURS, "third")
    await remove_finalizer(api, THINGS, seen, OURS)
    assert left(api) == ["third"]
    assert [verb for verb, _ in api.calls] == ["json_patch", "get", "json_patch"]


async def test_conflict_then_refusal_then_gone_is_done() -> None:
    api = MemoryApi()
    seen = stored(api, "other", OURS)
    api.trouble(
        "json_patch",
        Invalid(422, "Invalid", "test failed"),
        Conflict(409, "Conflict", "x"),
        NotFound(404, "NotFound", ""),
    )
    assert await remove_finalizer(api, THINGS, seen, OURS) is None


async def test_an_object_that_has_gone_meanwhile_is_done() -> None:
    api = MemoryApi()
    seen = stored(api, OURS)
    api.objects.clear()
    assert await remove_finalizer(api, THINGS, seen, OURS) is None
    assert await add_finalizer(api, THINGS, stored(MemoryApi()), OURS) is None


async def test_a_later_object_of_that_name_keeps_its_finalizers() -> None:
    api = MemoryApi()
    seen = stored(api, OURS)
    api.objects.clear()
    stored(api, OURS, uid="another")
    assert await remove_finalizer(api, THINGS, seen, OURS) is None
    assert left(api) == [OURS]


async def test_what_is_as_wanted_is_not_written() -> None:
    api = MemoryApi()
    present = stored(api, "other", OURS)
    assert await add_finalizer(api, THINGS, present, OURS) is present
    without = stored(api, "other")
    assert await remove_finalizer(api, THINGS, without, OURS) is without
    assert api.calls == []


@pytest.mark.parametrize("others", [[], ["other"]], ids=["the first", "beside another's"])
async def test_ours_is_added(others: list[str]) -> None:
    api = MemoryApi()
    await add_finalizer(api, THINGS, stored(api, *others), OURS)
    assert left(api) == [*others, OURS]


async def test_adding_to_a_list_that_has_changed_keeps_the_change() -> None:
    api = MemoryApi()
    empty, full = stored(api), stored(api, "one")
    await add_finalizer(api, THINGS, empty, OURS)
    assert left(api) == ["one", OURS]
    stored(api, "two")
    await add_finalizer(api, THINGS, full, OURS)
    assert left(api) == ["two", OURS]


async def test_none_is_added_to_an_object_that_is_going() -> None:
    api = MemoryApi()
    going = stored(api, "other", deletionTimestamp="2026-01-01T00:00:00Z")
    assert await add_finalizer(api, THINGS, going, OURS) is None
    assert api.calls == []


async def test_a_list_that_never_stands_still_is_left_to_the_back_off() -> None:
    api = MemoryApi()
    seen = stored(api, OURS)
    api.trouble("json_patch", *[Conflict(409, "Conflict", "x")] * ATTEMPTS)
    with pytest.raises(TryAgainError):
        await remove_finalizer(api, THINGS, seen, OURS)
