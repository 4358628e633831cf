"""What a kubelet changes in its node's status."""

from __future__ import annotations

import pytest

from devcluster.node_resources import NO_OFFER, Offer, change


@pytest.mark.parametrize(
    ("capacity", "allocatable", "allocatable_change"),
    [
        pytest.param({"a.b/c": "2"}, {}, {"a.b/c": "2"}, id="a resource that somebody added is offered"),
        pytest.param({"a.b/c": "3"}, {"a.b/c": "2"}, {"a.b/c": "3"}, id="a changed amount is followed"),
        pytest.param({}, {"a.b/c": "2"}, {"a.b/c": None}, id="a resource that is gone is withdrawn"),
    ],
)
def test_capacity_that_others_declare_is_offered_and_left_alone(
    capacity: dict[str, str], allocatable: dict[str, str], allocatable_change: dict[str, str | None]
) -> None:
    assert change(capacity, allocatable, NO_OFFER) == {"allocatable": allocatable_change}


@pytest.mark.parametrize(
    ("capacity", "allocatable"),
    [
        pytest.param({"cpu": "4"}, {"cpu": "3"}, id="what the kubelet itself declares is not touched"),
        pytest.param({"a.b/c": "2"}, {"a.b/c": "2"}, id="a settled node is not written"),
    ],
)
def test_nothing_is_written_without_a_difference(capacity: dict[str, str], allocatable: dict[str, str]) -> None:
    assert change(capacity, allocatable, NO_OFFER) == {}


def test_what_plugins_list_overwrites_capacity_and_allocatable() -> None:
    offer = Offer({"a.b/c": 3}, {"a.b/c": 2}, ())
    assert change({"a.b/c": "9", "x.y/z": "1"}, {"x.y/z": "1"}, offer) == {
        "capacity": {"a.b/c": "3"},
        "allocatable": {"a.b/c": "2"},
    }


def test_a_dropped_resource_becomes_zero_and_its_key_stays() -> None:
    assert change({"a.b/c": "3"}, {"a.b/c": "0"}, Offer({}, {}, ["a.b/c"])) == {"capacity": {"a.b/c": "0"}}


def test_thousands_are_written_as_the_api_server_writes_them() -> None:
    offer = Offer({"a.b/c": 2000}, {"a.b/c": 2000}, ())
    assert change({"a.b/c": "2k"}, {"a.b/c": "2k"}, offer) == {}
