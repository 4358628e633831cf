"""The RFC 6902 patch that turns one JSON object into another.

Guarantees   Only what differs is touched: keys that are the same in both stay, so that two webhooks that add to one
             map do not undo each other. A map that is absent, or null, is added whole; one that is there is added
             to. `~` and `/` in a key are escaped. `true` and `1` are different values.
Assumptions  Both are plain decoded JSON. A list that differs is replaced whole: its items have no identity here.
Recovery     None needed: a pure function.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Operation = dict[str, Any]


def json_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Operation]:
    """The operations in an order in which they can be applied; empty when nothing differs."""
    return list(_between(before, after, ""))


def pointer(key: str) -> str:
    """One step of a JSON pointer."""
    return "/" + key.replace("~", "~0").replace("/", "~1")


def _between(before: Mapping[str, Any], after: Mapping[str, Any], path: str) -> Iterator[Operation]:
    for key in sorted(before.keys() - after.keys()):
        yield {"op": "remove", "path": path + pointer(key)}
    for key, value in after.items():
        here = path + pointer(key)
        if key not in before:
            yield {"op": "add", "path": here, "value": value}
        elif isinstance(value, Mapping) and isinstance(before[key], Mapping):
            yield from _between(before[key], value, here)
        elif not same(before[key], value):
            yield {"op": "replace", "path": here, "value": value}


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same one."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
