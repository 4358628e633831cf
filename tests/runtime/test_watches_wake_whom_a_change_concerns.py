"""From a change to the keys it concerns."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from gpustack_op.api.meta import Resource
from gpustack_op.runtime.change import Change
from gpustack_op.runtime.controller import Request, Watch, mapped, owned, primary, spec_changed
from gpustack_op.runtime.workqueue import LIVE, LOW
from tests.runtime.fake_time import in_fake_time
from tests.runtime.sources import FakeSource
from tests.runtime.things import THINGS, Thing

CLUSTER_OWNERS = Resource("owners.example.com", "v2", "owners", "Owner", Thing)


def woken(watch: Watch[Thing], change: Change[Thing]) -> list[tuple[str, int]]:
    keys: list[tuple[str, int]] = []
    watch.subscribe(lambda request, priority: keys.append((str(request), priority)))
    source = watch.informer
    assert isinstance(source, FakeSource)
    source.tell(change)
    return keys


@in_fake_time
async def test_a_primary_watch_wakes_the_object_itself() -> None:
    source = FakeSource()
    assert woken(primary(source), Change(None, source.thing("a"))) == [("a/a", LIVE)]


@in_fake_time
async def test_a_deletion_wakes_the_key_by_its_last_known_state() -> None:
    source = FakeSource()
    assert woken(primary(source), Change(source.thing("a"), None)) == [("a/a", LIVE)]


@in_fake_time
async def test_the_initial_list_wakes_at_low_priority() -> None:
    source = FakeSource()
    assert woken(primary(source), Change(None, source.thing("a"), initial=True)) == [("a/a", LOW)]


@in_fake_time
async def test_whoever_lost_a_reference_is_woken_as_well_as_who_gained_it() -> None:
    source = FakeSource()
    watch = mapped(source, lambda changed: [Request(changed.spec.node_name)])
    change = Change(source.thing("a", 1, nodeName="before"), source.thing("a", 2, nodeName="after"))
    assert woken(watch, change) == [("before", LIVE), ("after", LIVE)]


@in_fake_time
async def test_one_key_is_woken_once_for_both_states() -> None:
    source = FakeSource()
    assert woken(primary(source), Change(source.thing("a", 1), source.thing("a", 2))) == [("a/a", LIVE)]


def owner(*, kind: str = "Thing", version: str = "example.com/v1", controller: bool = True) -> dict[str, object]:
    return {"apiVersion": version, "kind": kind, "name": "boss", "uid": "u", "controller": controller}


@pytest.mark.parametrize(
    ("reference", "resource", "keys"),
    [
        pytest.param(owner(), THINGS, ["a/boss"], id="the controlling owner, in the same namespace"),
        pytest.param(owner(version="example.com/v9"), THINGS, ["a/boss"], id="whatever the version"),
        pytest.param(owner(controller=False), THINGS, [], id="not an owner that does not control"),
        pytest.param(owner(kind="Other"), THINGS, [], id="not another kind"),
        pytest.param(owner(version="other.com/v1"), THINGS, [], id="not another group of that kind"),
        pytest.param(
            owner(kind="Owner", version="owners.example.com/v2"), CLUSTER_OWNERS, ["boss"], id="a cluster-scoped owner"
        ),
    ],
)
def test_an_owned_object_wakes_its_controlling_owner(
    reference: dict[str, object], resource: Resource[Thing], keys: list[str]
) -> None:
    @in_fake_time
    async def check() -> None:
        source = FakeSource()
        change = Change(None, source.thing("a", ownerReferences=[reference]))
        assert [key for key, _ in woken(owned(source, resource), change)] == keys

    check()


@in_fake_time
async def test_a_predicate_holds_changes_back() -> None:
    source = FakeSource()
    watch = primary(source, predicate=spec_changed)
    status_only = Change(source.thing("a", 1, generation=1), source.thing("a", 2, generation=1))
    assert woken(watch, status_only) == []
    watch = primary(FakeSource(), predicate=spec_changed)
    spec = Change(source.thing("a", 2, generation=1), source.thing("a", 3, generation=2))
    assert woken(watch, spec) == [("a/a", LIVE)]


@in_fake_time
async def test_a_mapping_that_raises_is_told_once_and_stops_nothing() -> None:
    source = FakeSource()
    awake: list[str] = []

    def first_part(changed: Thing) -> list[Request]:
        return [Request(changed.spec.parts[0])]

    mapped(source, first_part).subscribe(lambda request, _: awake.append(f"mapped {request}"))
    primary(source).subscribe(lambda request, _: awake.append(str(request)))
    with capture_logs() as lines:
        for version in (1, 2, 3):
            source.tell(Change(None, source.thing("a", version)))
        source.tell(Change(None, source.thing("a", 4, parts=["p"])))
    assert awake == ["a/a", "a/a", "a/a", "mapped p", "a/a"]
    assert [line["event"] for line in lines] == ["watch.failing", "watch.recovered"]
