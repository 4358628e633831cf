"""The apply helper against an API server in memory: zero writes when settled, no takeover, no second child."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from gpustack_op.api.kueue import ADMISSION_CHECKS, RESOURCE_FLAVORS
from gpustack_op.api.worker import INSTANCE_TYPES
from gpustack_op.runtime.apply import BeingDeletedError, NotOursError, Owned, UnknownFieldError, Writer
from gpustack_op.runtime.errors import Conflict
from gpustack_op.runtime.reconciler import TryAgainError
from tests.runtime.memory_api import ANSWER_LOST, MemoryApi
from tests.runtime.things import THINGS

OWNER = {"apiVersion": "v1", "kind": "Boss", "name": "boss", "uid": "boss-uid", "controller": True}


def wanted(size: int = 1, **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "t", "namespace": "a", "ownerReferences": [OWNER], **metadata},
        "spec": {"size": size},
    }


def flavor(**labels: str) -> dict[str, Any]:
    return {"metadata": {"name": "f", "labels": {"mark": "ours"}}, "spec": {"nodeLabels": labels}}


async def test_what_is_missing_is_created_and_then_left_alone() -> None:
    api = MemoryApi()
    writer = Writer(api, "me")
    created = await writer.converge(THINGS, wanted(), None)
    assert created is not None
    assert await writer.converge(THINGS, wanted(), created) is None
    assert await writer.converge(THINGS, wanted(), created) is None
    assert api.writes == ["create"]


async def test_a_difference_is_applied_once_under_our_field_manager() -> None:
    api = MemoryApi()
    writer = Writer(api, "me")
    created = await writer.converge(THINGS, wanted(1), None)
    changed = await writer.converge(THINGS, wanted(2), created)
    assert changed is not None
    assert changed.spec.size == 2
    assert api.writes == ["create", "apply"]
    assert api.bodies[-1]["metadata"]["uid"] == changed.uid


async def test_two_reconciles_on_a_cache_that_lags_make_one_child() -> None:
    api = MemoryApi()
    writer = Writer(api, "me")
    await writer.converge(THINGS, wanted(), None)
    assert await writer.converge(THINGS, wanted(), None) is None
    assert list(api.objects) == [("things", "a", "t")]
    assert api.writes == ["create", "create"]


async def test_a_create_whose_answer_was_lost_is_found_to_be_ours() -> None:
    api = MemoryApi()
    writer = Writer(api, "me")
    api.trouble("create", ANSWER_LOST)
    with pytest.raises(ConnectionResetError):
        await writer.converge(THINGS, wanted(), None)
    assert await writer.converge(THINGS, wanted(), None) is None
    assert len(api.objects) == 1


@pytest.mark.parametrize(
    "owners",
    [
        pytest.param([{**OWNER, "uid": "someone-else"}], id="another owner"),
        pytest.param([{**OWNER, "controller": False}], id="our owner, not controlling"),
        pytest.param([], id="no owner"),
    ],
)
async def test_an_object_of_that_name_that_is_not_ours_is_never_taken_over(owners: list[dict[str, Any]]) -> None:
    api = MemoryApi()
    api.put(THINGS, wanted(9, ownerReferences=owners))
    with pytest.raises(NotOursError, match='Thing "a/t" exists and is not ours; delete or rename it'):
        await Writer(api, "me").converge(THINGS, wanted(1), None)
    assert api.read(THINGS, "t", "a").spec.size == 9


async def test_without_an_owner_all_our_labels_make_an_object_ours() -> None:
    api = MemoryApi()
    api.put(RESOURCE_FLAVORS, {"metadata": {"name": "f", "labels": {"mark": "theirs"}}, "spec": {}})
    with pytest.raises(NotOursError):
        await Writer(api, "me").converge(RESOURCE_FLAVORS, flavor(), None)
    api.put(RESOURCE_FLAVORS, {"metadata": {"name": "f", "labels": {"mark": "ours", "x": "y"}}, "spec": {}})
    assert await Writer(api, "me").converge(RESOURCE_FLAVORS, flavor(zone="z"), None) is not None


async def test_the_old_object_that_is_still_going_is_no_success() -> None:
    api = MemoryApi()
    api.put(THINGS, wanted(1, deletionTimestamp="2026-01-01T00:00:00Z"))
    with pytest.raises(BeingDeletedError, match='Thing "a/t" is still being deleted'):
        await Writer(api, "me").converge(THINGS, wanted(1), None)
    assert issubclass(BeingDeletedError, TryAgainError)


async def test_an_object_that_is_gone_or_replaced_is_not_written() -> None:
    api = MemoryApi()
    writer = Writer(api, "me")
    stale = await writer.converge(THINGS, wanted(1), None)
    api.objects.clear()
    with pytest.raises(Conflict):
        await writer.converge(THINGS, wanted(2), stale)
    api.put(THINGS, wanted(1))
    with pytest.raises(TryAgainError, match='Thing "a/t" is another object by now'):
        await writer.converge(THINGS, wanted(2), stale)
    assert api.read(THINGS, "t", "a").spec.size == 1


async def test_keys_of_others_in_a_map_that_is_ours_alone_are_removed() -> None:
    api = MemoryApi()
    writer, owned = Writer(api, "me"), Owned(exact=("spec.nodeLabels",))
    await writer.converge(RESOURCE_FLAVORS, flavor(zone="a"), None, owned=owned)
    await Writer(api, "other").converge(RESOURCE_FLAVORS, flavor(extra="x"), api.read(RESOURCE_FLAVORS, "f"))
    cleaned = await writer.converge(RESOURCE_FLAVORS, flavor(zone="a"), api.read(RESOURCE_FLAVORS, "f"), owned=owned)
    assert cleaned is not None
    assert cleaned.spec.node_labels == {"zone": "a"}
    assert api.bodies[-1]["spec"] == {"nodeLabels": {"extra": None}}
    assert await writer.converge(RESOURCE_FLAVORS, flavor(zone="a"), cleaned, owned=owned) is None


async def test_only_labels_of_our_prefix_are_ours() -> None:
    api = MemoryApi()
    writer, owned = Writer(api, "me"), Owned(exact=("metadata.labels[ours/*]",))
    desired = {"metadata": {"name": "f", "labels": {"ours/a": "1"}}}
    api.put(RESOURCE_FLAVORS, {"metadata": {"name": "f", "labels": {"ours/a": "1", "ours/b": "2", "theirs/c": "3"}}})
    cleaned = await writer.converge(RESOURCE_FLAVORS, desired, api.read(RESOURCE_FLAVORS, "f"), owned=owned)
    assert cleaned is not None
    assert cleaned.labels == {"ours/a": "1", "theirs/c": "3"}


async def test_a_field_that_is_given_up_goes() -> None:
    api = MemoryApi()
    writer = Writer(api, "me")
    present = await writer.converge(RESOURCE_FLAVORS, {**flavor(), "spec": {"topologyName": "old"}}, None)
    changed = await writer.converge(RESOURCE_FLAVORS, {**flavor(), "spec": {"topologyName": None}}, present)
    assert changed is not None
    assert changed.spec.topology_name == ""


async def test_a_server_that_keeps_changing_our_value_back_is_told_and_not_fought_in_a_loop() -> None:
    class Stubborn(MemoryApi):
        def _store(self, key: tuple[str, str, str], body: dict[str, Any]) -> dict[str, Any]:
            return super()._store(key, {**body, "spec": {"size": 7}})

    api = Stubborn()
    present = await Writer(api, "me").converge(THINGS, wanted(1), None)
    with capture_logs() as lines:
        await Writer(api, "me").converge(THINGS, wanted(1), present)
    assert api.writes == ["create", "apply", "merge_patch"]
    assert [(line["event"], line["fields"]) for line in lines] == [("apply.not_kept", ["spec.size"])]


async def test_status_is_written_whole_and_only_when_it_changes() -> None:
    api = MemoryApi()
    writer = Writer(api, "me")
    api.put(INSTANCE_TYPES, {"metadata": {"name": "t"}, "status": {"phase": "Old", "stale": {"a": 1}}})
    present = api.read(INSTANCE_TYPES, "t")
    status = {"phase": "Active", "views": [{"remaining": 4}], "summary": {"cpu": "48/72"}}
    changed = await writer.converge_status(INSTANCE_TYPES, status, present)
    assert changed is not None
    assert changed.status == status
    assert await writer.converge_status(INSTANCE_TYPES, status, changed) is None


async def test_a_status_time_that_is_ignored_causes_no_write() -> None:
    api = MemoryApi()
    writer, owned = Writer(api, "me"), Owned(ignored=("status.conditions.*.lastTransitionTime",))
    api.put(ADMISSION_CHECKS, {"metadata": {"name": "c"}})
    condition = {"type": "Active", "status": "True", "reason": "Ready", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    present = api.read(ADMISSION_CHECKS, "c")
    changed = await writer.converge_status(ADMISSION_CHECKS, {"conditions": [condition]}, present, owned=owned)
    assert changed is not None
    later = {**condition, "lastTransitionTime": "2026-02-02T00:00:00Z"}
    assert await writer.converge_status(ADMISSION_CHECKS, {"conditions": [later]}, changed, owned=owned) is None


async def test_an_annotation_that_caches_drop_is_a_defect_and_no_endless_write() -> None:
    desired = {"metadata": {"name": "f", "annotations": {"dropped.example.com/note": "x"}}}
    with pytest.raises(UnknownFieldError, match=r"drop the annotation dropped.example.com/note"):
        await Writer(MemoryApi(), "me").converge(RESOURCE_FLAVORS, desired, None)


async def test_a_delete_removes_exactly_what_was_seen() -> None:
    api = MemoryApi()
    writer = Writer(api, "me")
    seen = await writer.converge(THINGS, wanted(1), None)
    assert seen is not None
    await writer.converge(THINGS, wanted(2), seen)
    with pytest.raises(Conflict):
        await writer.delete(THINGS, seen)
    await writer.delete(THINGS, api.read(THINGS, "t", "a"))
    assert api.objects == {}
    await writer.delete(THINGS, seen)
