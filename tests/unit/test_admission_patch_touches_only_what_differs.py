"""The JSON patch of a defaulter: parents are made only where there are none, and nobody else's keys are lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack_op.runtime.webhook.patch import json_patch, same
from tests.runtime.webhook_stand import patched

CARD = {"example.com/card-id": "7"}


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        pytest.param(
            {}, [{"op": "add", "path": "/metadata/annotations", "value": CARD}], id="an absent parent is added as a map"
        ),
        pytest.param(
            {"annotations": None},
            [{"op": "replace", "path": "/metadata/annotations", "value": CARD}],
            id="a null parent becomes a map",
        ),
        pytest.param(
            {"annotations": {}},
            [{"op": "add", "path": "/metadata/annotations/example.com~1card-id", "value": "7"}],
            id="an empty parent is added to, and the slash is escaped",
        ),
        pytest.param(
            {"annotations": {"other": "kept"}},
            [{"op": "add", "path": "/metadata/annotations/example.com~1card-id", "value": "7"}],
            id="an existing key is left alone",
        ),
    ],
)
def test_one_annotation_is_added(metadata: dict[str, Any], expected: list[dict[str, Any]]) -> None:
    annotations = {**(metadata.get("annotations") or {}), **CARD}

    assert json_patch({"metadata": metadata}, {"metadata": {**metadata, "annotations": annotations}}) == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param({"a": 1, "b": 2}, {"a": 1}, [{"op": "remove", "path": "/b"}], id="a key that is gone is removed"),
        pytest.param({"a~b": 1}, {"a~b": 2}, [{"op": "replace", "path": "/a~0b", "value": 2}], id="a tilde is escaped"),
        pytest.param({"a": 1}, {"a": True}, [{"op": "replace", "path": "/a", "value": True}], id="true is not one"),
        pytest.param(
            {"a": [{"b": 1}]},
            {"a": [{"b": 2}]},
            [{"op": "replace", "path": "/a", "value": [{"b": 2}]}],
            id="a list that differs is replaced whole",
        ),
        pytest.param({"a": {"b": [1]}}, {"a": {"b": [1]}}, [], id="equal objects need no patch"),
    ],
)
def test_the_patch(before: dict[str, Any], after: dict[str, Any], expected: list[dict[str, Any]]) -> None:
    assert json_patch(before, after) == expected


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab/~", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3),
    max_leaves=12,
)
json_objects = st.dictionaries(st.text("ab/~", max_size=2), json_values, max_size=4)


@given(json_objects, json_objects)
def test_the_patch_applied_to_the_old_object_gives_the_new_one(before: dict[str, Any], after: dict[str, Any]) -> None:
    result: Any = before
    for operation in json_patch(before, after):
        result = patched(result, operation)

    assert same(result, after)
