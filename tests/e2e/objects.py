"""Objects as fields by path, so that two of them compare field by field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from tests.e2e.tables import EXPECTED

Fields = Mapping[str, object]
"""Paths such as `metadata.labels[kubernetes.io/os]` and `status.groups[0].id`, and the values there."""


def fields(value: object, path: str = "") -> dict[str, object]:
    """Every field that holds a value. An empty map or list is one, too."""
    return dict(_fields(value, path))


def described(name: str) -> dict[str, Any]:
    """The object as the walkthrough describes it, from `expected/objects/`."""
    found: dict[str, Any] = yaml.safe_load((EXPECTED / "objects" / f"{name}.yaml").read_text())
    return found


def beyond(present: Fields, shown: Fields, further: Iterable[str]) -> list[str]:
    """Fields that are neither shown nor named. A name stands for all that is below it, too."""
    named = tuple(further)
    return [path for path in present if path not in shown and not any(_covers(name, path) for name in named)]


def absent(present: Fields, further: Iterable[str]) -> list[str]:
    """Names that stand for no field."""
    return [name for name in further if not any(_covers(name, path) for path in present)]


def _covers(name: str, path: str) -> bool:
    return path == name or path.startswith((f"{name}.", f"{name}["))


def _fields(value: object, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from _fields(each, _child(path, key))
    elif isinstance(value, list) and value:
        for index, each in enumerate(value):
            yield from _fields(each, f"{path}[{index}]")
    else:
        yield path, value


def _child(path: str, key: str) -> str:
    if "/" in key or "." in key:
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key
