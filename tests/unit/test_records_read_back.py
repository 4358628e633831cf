"""The annotation that says what a Pod was given."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given as over
from hypothesis import settings
from hypothesis import strategies as st

from gpustack_op.api.worker import Placement
from gpustack_op.scheduling.manufacturers import Family
from gpustack_op.scheduling.records import (
    ContainerRecord,
    Entry,
    RecordError,
    read,
    record_of,
    strict_record_of,
    written,
)
from tests.builders import entry, given, partition_entry, pod, share_entry, slice_entry, whole_entry

STORED = {
    "main": {
        "devices": {
            "groups": [
                {
                    "id": "a10g",
                    "manufacturer": "nvidia",
                    "accelerators": [{"id": "GPU-1", "index": 0, "mode": 3, "allocated": 320000}],
                }
            ]
        },
        "deviceIDs": ["a10g:GPU-1:0000"],
    }
}
SLICE = Entry(manufacturer="nvidia", group="a10g", card="GPU-1", mode=Family.SLICED, allocated=320_000)


def test_the_form_of_a_slice() -> None:
    record = {"main": ContainerRecord((SLICE,), ("a10g:GPU-1:0000",))}
    assert read(json.dumps(STORED)) == record
    assert json.loads(written(record)) == STORED


def test_the_form_of_a_partition() -> None:
    text = written(given(partition_entry("h100/2", "3g.40gb", 4, 4, units=780_000)))
    assert json.loads(text)["main"]["devices"]["groups"][0]["accelerators"] == [
        {
            "id": "h100/2",
            "index": 2,
            "mode": 4,
            "allocated": 780_000,
            "allocatedPhysicalProfile": "3g.40gb",
            "allocatedPhysicalPlacements": [{"start": 4, "length": 4}],
        }
    ]


def test_equal_records_are_spelled_equally() -> None:
    one = {"b": ContainerRecord((share_entry("t4/1"), share_entry("t4/0")), ("y", "x")), "a": ContainerRecord()}
    other = {"a": ContainerRecord(), "b": ContainerRecord((share_entry("t4/0"), share_entry("t4/1")), ("x", "y"))}
    assert written(one) == written(other)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("null", id="null"),
        pytest.param("{", id="half a text"),
        pytest.param('{"main": null}', id="a container that is null"),
        pytest.param('[{"main": {}}]', id="the shape of old"),
        pytest.param('{"groups": [{"id": "a10g"}]}', id="a list for a container"),
        pytest.param(json.dumps(STORED).replace('"mode": 3', '"mode": 0'), id="a mode that gives nothing"),
        pytest.param(json.dumps(STORED).replace('"mode": 3', '"mode": 5'), id="the mode of a sidecar"),
        pytest.param(json.dumps(STORED).replace("320000", "-1"), id="a negative amount"),
        pytest.param(json.dumps(STORED).replace("320000", '"320000"'), id="an amount in quotes"),
        pytest.param(json.dumps(STORED).replace('"index": 0', '"index": -1'), id="a negative index"),
        pytest.param(
            json.dumps(STORED).replace('"mode": 3', '"mode": 4, "allocatedPhysicalPlacements": [{"start": 1}]'),
            id="a placement without length",
        ),
    ],
)
def test_what_cannot_be_read_names_the_annotation(text: str) -> None:
    with pytest.raises(RecordError, match=r"annotation device\.gpustack\.ai/accelerator\.allocated cannot be read"):
        read(text)


def test_a_pod_without_the_annotation_has_no_record() -> None:
    assert record_of(pod("p")) == {}


def test_a_strict_reader_believes_a_sound_record() -> None:
    record = given(slice_entry("a10g/0", 20), whole_entry("a10g/1"), partition_entry("h100/2", "1g.10gb", 0, 1))
    assert strict_record_of(pod("p", record=record)) == record


@pytest.mark.parametrize(
    ("record", "node", "doubt"),
    [
        pytest.param(given(whole_entry("t4/0")), "", "has a record but no node", id="no node"),
        pytest.param(given(whole_entry("t4/0"), container="x"), "n", "does not declare", id="a container it lacks"),
        pytest.param(given(share_entry("t4/0"), share_entry("t4/0")), "n", "named twice", id="one card twice"),
        pytest.param(given(slice_entry("t4/0", 101)), "n", "more than a card has", id="more than a card"),
        pytest.param(given(entry("t4/0", Family.SHARED, 160_001)), "n", "more than a share", id="more than a share"),
        pytest.param(
            given(entry("t4/0", Family.PARTITIONED, 1, profile="1g")), "n", "profile without placements",
            id="a partition that is nowhere",
        ),
        pytest.param(
            given(entry("t4/0", Family.PARTITIONED, 1, placements=(Placement(start=0, length=1),))), "n",
            "placements without a profile",
            id="a partition of no profile",
        ),
    ],
)  # fmt: skip
def test_a_strict_reader_doubts(record: dict[str, ContainerRecord], node: str, doubt: str) -> None:
    with pytest.raises(RecordError, match=doubt):
        strict_record_of(pod("p", record=record, node=node))


def test_a_strict_reader_knows_init_containers_only_when_declared() -> None:
    with pytest.raises(RecordError, match="container 'debug'"):
        strict_record_of(pod("p", {}, {}, record=given(whole_entry("t4/0"), container="debug")))


ENTRIES = st.builds(
    Entry,
    manufacturer=st.sampled_from(["amd", "nvidia"]),
    group=st.sampled_from(["a", "b"]),
    card=st.text(min_size=1, max_size=5),
    index=st.integers(0, 9),
    mode=st.sampled_from([Family.EXCLUSIVE, Family.SHARED, Family.SLICED, Family.PARTITIONED]),
    allocated=st.integers(0, 1_600_000),
    profile=st.sampled_from(["", "1g.10gb"]),
    placements=st.lists(st.builds(Placement, start=st.integers(0, 7), length=st.integers(1, 8)), max_size=2).map(tuple),
    partition_id=st.sampled_from(["", "MIG-1"]),
)
RECORDS = st.dictionaries(
    st.text(min_size=1, max_size=5),
    st.builds(ContainerRecord, st.lists(ENTRIES, max_size=3).map(tuple), st.lists(st.text(), max_size=3).map(tuple)),
    max_size=3,
)


@settings(deadline=None)
@over(RECORDS)
def test_a_record_reads_back(record: dict[str, ContainerRecord]) -> None:
    again = read(written(record))
    assert again.keys() == record.keys()
    for container, held in record.items():
        assert sorted(again[container].entries, key=repr) == sorted(held.entries, key=repr)
        assert sorted(again[container].device_ids) == sorted(held.device_ids)
    assert written(again) == written(record)


@settings(deadline=None)
@over(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(RecordError):
        assert isinstance(read(text), dict)
