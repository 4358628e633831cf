from __future__ import annotations

import pytest

from gpustack_op.runtime.selector import Selector
from tests.runtime.things import thing

OBJECT = thing("one", 7, labels={"a": "b", "x/y.z": "1", "empty": ""}, nodeName="n1", flag=True, size=3)


@pytest.mark.parametrize(
    ("labels", "matches"),
    [
        ("", True),
        ("a=b", True),
        ("a==b", True),
        ("a=c", False),
        ("a!=b", False),
        ("a!=c", True),
        ("missing!=c", True),
        ("a", True),
        ("missing", False),
        ("!missing", True),
        ("! a", False),
        ("a in (b,c)", True),
        ("a in (c, d)", False),
        ("a notin (c)", True),
        ("a notin ( b )", False),
        ("missing notin (b)", True),
        ("missing in (b)", False),
        ("x/y.z=1,a in (b),!missing", True),
        ("x/y.z=1 , a = c", False),
        ("empty=", True),
        ("a=", False),
    ],
)
def test_labels(labels: str, matches: bool) -> None:
    assert Selector(labels=labels).matches(OBJECT) is matches


@pytest.mark.parametrize(
    ("fields", "matches"),
    [
        ("metadata.name=one", True),
        ("metadata.name=two", False),
        ("metadata.name!=two", True),
        ("spec.nodeName==n1", True),
        ("spec.nodeName=n1,metadata.namespace=a", True),
        ("spec.nodeName=n1,metadata.namespace=b", False),
        ("spec.absent=", True),
        ("spec.absent=x", False),
        ("spec.flag=true", True),
        ("spec.size=3", True),
    ],
)
def test_fields(fields: str, matches: bool) -> None:
    assert Selector(fields=fields).matches(OBJECT) is matches


@pytest.mark.parametrize(("namespace", "matches"), [("", True), ("a", True), ("b", False)])
def test_namespace(namespace: str, matches: bool) -> None:
    assert Selector(namespace=namespace).matches(OBJECT) is matches


def test_a_selector_that_cannot_be_read_is_said_to_be_so() -> None:
    with pytest.raises(ValueError, match="from position 4"):
        Selector(labels="a=b,(c").matches(OBJECT)
