from __future__ import annotations

import msgspec
import pytest

from gpustack_op.api.meta import OwnerReference, Resource
from gpustack_op.runtime.decode import Bookmark, Event, Failure, Undecodable, codec_for
from gpustack_op.runtime.errors import MalformedAnswer
from gpustack_op.runtime.lean import Shared, lean_codec
from tests.runtime.apiserver import as_json, line, status
from tests.runtime.things import THINGS, Thing, ThingSpec, thing

OWNER = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "controller": True}


@pytest.mark.parametrize("codec", [codec_for(Thing), lean_codec(THINGS)], ids=["direct", "cache"])
@pytest.mark.parametrize(
    "nulls",
    [
        pytest.param({"metadata": {"name": "one"}, "spec": None}, id="a part"),
        pytest.param({"metadata": {"name": "one"}, "spec": {"size": None}}, id="a number"),
        pytest.param({"metadata": {"name": "one"}, "spec": {"parts": None}}, id="a list"),
        pytest.param({"metadata": {"name": "one", "labels": None, "ownerReferences": None}}, id="labels"),
        pytest.param({"metadata": {"name": "one", "creationTimestamp": None, "generation": None}}, id="metadata"),
        pytest.param({"metadata": {"name": "one"}, "other": {"deep": [None]}}, id="unknown fields"),
    ],
)
def test_a_null_reads_as_an_absent_field(codec: object, nulls: dict[str, object]) -> None:
    obj = codec.object(as_json(nulls))  # type: ignore[attr-defined]
    assert (obj.name, obj.spec, obj.labels) == ("one", ThingSpec(), {})


def test_a_list_of_nothing_may_be_null() -> None:
    page = codec_for(Thing).page(b'{"metadata": {"resourceVersion": "7", "continue": null}, "items": null}')
    assert (page.items, page.version, page.continuation) == ([], "7", "")


@pytest.mark.parametrize("order", ["type first", "object first"])
def test_bookmarks_and_failures_are_told_from_objects(order: str) -> None:
    def as_line(type_: str, obj: object) -> bytes:
        first = {"type": type_, "object": obj}
        return as_json(first if order == "type first" else dict(reversed(first.items())))

    codec = lean_codec(THINGS)
    ends = {"metadata": {"resourceVersion": "7", "annotations": {"k8s.io/initial-events-end": "true"}}, "spec": None}
    assert codec.event(as_line("BOOKMARK", ends)) == Bookmark("7", ends_list=True)
    assert codec.event(as_line("BOOKMARK", {"metadata": {"resourceVersion": "8"}})) == Bookmark("8")
    assert codec.event(as_line("ERROR", status(410, "Gone"))) == Failure(status(410, "Gone"))
    assert codec.event(as_line("ADDED", thing("one", 7))) == Event("ADDED", codec.object(as_json(thing("one", 7))))


def test_an_object_of_the_wrong_shape_is_named_and_no_value_is_shown() -> None:
    event = lean_codec(THINGS).event(line("DELETED", thing("one", 7, size="s3cret")))
    assert isinstance(event, Undecodable)
    assert (event.known.namespace, event.known.name, event.deleted) == ("a", "one", True)
    assert "s3cret" not in event.reason
    assert "size" in event.reason


@pytest.mark.parametrize(
    "bad", [b"", b"[]", b'{"type": "SOMETHING", "object": {}}', b'{"type": "ADDED", "obj', b"\xff"]
)
def test_a_line_that_is_no_event_is_malformed(bad: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        lean_codec(THINGS).event(bad)


def test_a_cache_and_a_direct_answer_read_the_same() -> None:
    raw = as_json(thing("one", 7, labels={"a": "b"}, size=3, nodeName="n", ownerReferences=[OWNER], finalizers=["f"]))
    assert lean_codec(THINGS).object(raw) == codec_for(Thing).object(raw)
    assert codec_for(Thing).object(raw).metadata.owner_references == (
        OwnerReference(api_version="v1", kind="Node", name="n", uid="u", controller=True),
    )


def test_a_cache_keeps_only_the_labels_and_annotations_that_are_named() -> None:
    picky = Resource(
        "example.com", "v1", "things", "Thing", Thing, labels=("use", "example.com/"), annotations=("note.",)
    )
    labels = {"use": "yes", "user": "no", "example.com/a": "1", "example.community/a": "2"}
    raw = as_json(thing("one", 7, labels=labels, annotations={"note.a": "1", "noted": "2"}))
    one = lean_codec(picky).object(raw)
    assert one.labels == {"use": "yes", "example.com/a": "1"}
    assert one.annotations == {"note.a": "1"}


def test_a_cache_keeps_no_annotation_that_nobody_named() -> None:
    raw = as_json(thing("one", 7, annotations={"note": "1"}))
    assert lean_codec(THINGS).object(raw).metadata.annotations is None


def test_equal_labels_and_owners_of_two_objects_are_one_value_in_memory() -> None:
    codec = lean_codec(THINGS)
    one = codec.object(as_json(thing("one", 7, labels={"a": "b"}, ownerReferences=[OWNER])))
    two = codec.object(as_json(thing("two", 8, labels={"a": "b"}, ownerReferences=[OWNER])))
    assert one.metadata.labels is two.metadata.labels
    assert one.metadata.owner_references is two.metadata.owner_references


def test_labels_that_are_too_long_for_a_table_are_known_again_by_their_digest() -> None:
    codec = lean_codec(THINGS)
    labels = {f"label{number}": "x" * 60 for number in range(50)}
    one = codec.object(as_json(thing("one", 7, labels=labels)))
    again = codec.object(as_json(thing("one", 8, labels=labels)))
    other = codec.object(as_json(thing("one", 9, labels={**labels, "label7": "y"})))
    assert one.metadata.labels is again.metadata.labels
    assert other.labels["label7"] == "y"


def test_the_table_of_shared_values_does_not_grow_for_ever() -> None:
    table: Shared[bytes] = Shared(bytes)
    for number in range(50_000):
        table.value(msgspec.Raw(b'{"pod":"%d"}' % number))
    assert len(table) < 45_000
