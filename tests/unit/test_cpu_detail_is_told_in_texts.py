"""The note that tells of a flavor's CPU."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack_op.scheduling import cpu_detail

REPORT = {
    "name": "AMD EPYC 7R32",
    "family": "23",
    "physical_cores": "2",
    "threads_per_core": "2",
    "logical_cores": "4",
    "stepping": "0",
    "hz": "2800000000",
    "boost_freq": "3300000000",
    "cache_line": "64",
    "cache_l1i": "32768",
    "cache_l1d": "32768",
    "cache_l2": "524288",
    "cache_l3": "16777216",
}
DETAIL = {
    "physicalCores": "2",
    "threadsPerPhysicalCore": "2",
    "logicalCores": "4",
    "stepping": "0",
    "clockSpeed": "2800000000",
    "maxClockSpeed": "3300000000",
    "cacheLine": "64",
    "cache": {"l1i": "32768", "l1d": "32768", "l2": "524288", "l3": "16777216"},
}


def test_everything_reported_is_told() -> None:
    assert cpu_detail.cpu_detail(REPORT) == DETAIL


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        ({}, {}),
        ({"stepping": "@cpu.model.stepping", "hz": ""}, {}),
        ({"hz": "1"}, {"clockSpeed": "1"}),
        ({"cache_l2": "1"}, {"cache": {"l2": "1"}}),
    ],
)
def test_what_is_not_known_is_left_out(report: dict[str, str], expected: object) -> None:
    assert cpu_detail.cpu_detail(report) == expected


def test_beside_a_card_the_cpu_has_a_name() -> None:
    named = cpu_detail.with_identity({"stepping": "0"}, general_key="amd-epyc-7r32", reported=REPORT)
    assert named == {"manufacturer": "amd", "product": "AMD EPYC 7R32", "family": "23", "stepping": "0"}


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        ("", {}),
        ("{", {}),
        ("[]", {}),
        ("null", {}),
        ("[" * 100_000, {}),
        ('{"cache": {}}', {}),
        ('{"cache": "none", "stepping": 7, "clockSpeed": ""}', {}),
        ('{"stepping": "7"}', {"stepping": "7"}),
    ],
)
def test_a_note_is_read_as_far_as_it_makes_sense(note: str, expected: object) -> None:
    assert cpu_detail.read(note) == expected


@given(st.dictionaries(st.sampled_from(sorted(REPORT)), st.text()))
def test_what_is_written_reads_back(report: dict[str, str]) -> None:
    detail = cpu_detail.cpu_detail(report)
    assert cpu_detail.read(cpu_detail.written(detail)) == detail


def test_the_same_facts_give_the_same_bytes() -> None:
    backwards = dict(reversed(REPORT.items()))
    assert cpu_detail.written(cpu_detail.cpu_detail(backwards)) == json.dumps(
        DETAIL, sort_keys=True, separators=(",", ":")
    )
