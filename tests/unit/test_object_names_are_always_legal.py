"""Names of the objects the product makes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack_op.scheduling import names

OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
A10G_ON_EPYC = "gpustack--amd-epyc-7r32--nvidia-a10g-linux-amd64"


@pytest.mark.parametrize(
    ("pool", "entrance"),
    [
        ("gpustack--generic-linux-amd64", "gpustack-fnv64-3b93966fd73eb9ec"),
        ("gpustack--nvidia-a10g-linux-amd64", "gpustack-fnv64-c4680bb149644f1c"),
        ("gpustack--nvidia-tesla-t4-linux-amd64", "gpustack-fnv64-6b371caa2da0b799"),
        ("gpustack--amd-epyc-7r13-linux-amd64", "gpustack-fnv64-8dde992f64a17a2f"),
        ("gpustack--amd-epyc-7r32-linux-amd64", "gpustack-fnv64-d3390f10cd57a632"),
        (A10G_ON_EPYC, "gpustack-fnv64-029fd9550e0c70bd"),
        ("gpustack--intel-xeon-platinum-8259cl-linux-amd64", "gpustack-fnv64-c6aee2b7b5c4dc6b"),
        (
            "gpustack--intel-xeon-platinum-8259cl--nvidia-tesla-t4-linux-amd64",
            "gpustack-fnv64-5b59e508edc027b7",
        ),
        ("gpustack--nvidia-h100-80gb-hbm3-linux-amd64", "gpustack-fnv64-e4768a65ca0ce96b"),
        ("gpustack--amd-epyc-7763--nvidia-tesla-t4-linux-amd64", "gpustack-fnv64-007a192c49d4a8cf"),
        ("a10g-12c128g", "gpustack-fnv64-d4c0e6cd72686015"),
        ("a10g-8c32g", "gpustack-fnv64-8cf5b3114035c84a"),
        ("", "gpustack-fnv64-cbf29ce484222325"),
    ],
)
def test_an_entrance_is_the_hash_of_its_pool(pool: str, entrance: str) -> None:
    assert names.entrance(pool) == entrance


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (names.cpu_flavor("amd-epyc-7r13", "linux", "amd64", 16), "gpustack--amd-epyc-7r13-linux-amd64-16c"),
        (names.device_flavor("amd-epyc-7r32", "nvidia-a10g", "linux", "amd64", 1), f"{A10G_ON_EPYC}-1d"),
        (names.pool("generic", "", "linux", "amd64"), "gpustack--generic-linux-amd64"),
        (names.pool("", "", "linux", "amd64"), "gpustack--generic-linux-amd64"),
        (names.pool("generic", "nvidia-a10g", "linux", "amd64"), "gpustack--nvidia-a10g-linux-amd64"),
        (names.pool("amd-epyc-7r32", "", "linux", "amd64"), "gpustack--amd-epyc-7r32-linux-amd64"),
        (names.pool("amd-epyc-7r32", "nvidia-a10g", "linux", "amd64"), A10G_ON_EPYC),
        (names.catalog_row("generic", ""), "gpustack--generic"),
        (names.catalog_row("", "nvidia-a10g"), "gpustack--nvidia-a10g"),
        (names.catalog_row("amd-epyc-7r32", ""), "gpustack--amd-epyc-7r32"),
        (names.catalog_row("amd-epyc-7r32", "nvidia-a10g"), "gpustack--amd-epyc-7r32--nvidia-a10g"),
        (names.worker_feature("node-a"), "node-a-gpustack-worker"),
        (names.agent_feature("node-a"), "node-a-gpustack-device-manager"),
        (names.pool("generic", "hygon-k100_ai", "linux", "amd64"), "gpustack--hygon-k100-ai-linux-amd64"),
    ],
)
def test_an_object_is_named_by_its_keys(name: str, expected: str) -> None:
    assert name == expected


@pytest.mark.parametrize(
    ("flavor", "count"),
    [
        ("gpustack--amd-epyc-7r13-linux-amd64-16c", 16),
        (f"{A10G_ON_EPYC}-1d", 1),
        (f"{A10G_ON_EPYC}-4d-fnv64-87bf574bea2a4f23", 4),
        ("default-flavor", 0),
        ("", 0),
    ],
)
def test_the_count_of_a_node_is_read_from_the_flavors_name(flavor: str, count: int) -> None:
    assert names.count_in(flavor) == count


@pytest.mark.parametrize(("text", "expected"), [("", 0x811C9DC5), ("a", 0xE40C292C), ("foobar", 0xBF9CF968)])
def test_the_short_hash_is_fnv1a(text: str, expected: int) -> None:
    assert names.fnv1a32(text) == expected


def test_names_too_long_stay_distinct_and_keep_their_count() -> None:
    first = names.device_flavor("k" * 150, "a" * 150, "linux", "amd64", 8)
    second = names.device_flavor("k" * 150, "b" * 150, "linux", "amd64", 8)
    assert len(first) == 253
    assert first != second
    assert first.endswith("-8d")


@given(st.text(), st.text(), st.text(), st.text(), st.integers(0, 10**6))
def test_every_name_is_legal(general: str, accelerator: str, os: str, arch: str, count: int) -> None:
    assert is_legal(names.cpu_flavor(general, os, arch, count))
    assert is_legal(names.device_flavor(general, accelerator, os, arch, count))
    assert is_legal(names.pool(general, accelerator, os, arch))
    assert is_legal(names.catalog_row(general, accelerator))
    assert is_legal(names.worker_feature(general))
    assert is_legal(names.agent_feature(general))


@given(st.text())
def test_an_entrance_is_legal_and_of_fixed_length(pool: str) -> None:
    entrance = names.entrance(pool)
    assert is_legal(entrance)
    assert len(entrance) == 31
    assert names.is_entrance(entrance)


@given(st.text())
def test_a_legal_name_stays_as_it_is(text: str) -> None:
    once = names.object_name(text)
    assert names.object_name(once) == once


@given(st.text(), st.integers(0, 10**6))
def test_a_count_is_always_read_back(general: str, count: int) -> None:
    assert names.count_in(names.cpu_flavor(general, "linux", "amd64", count)) == count


def is_legal(name: str) -> bool:
    return len(name) <= 253 and OBJECT_NAME.fullmatch(name) is not None
