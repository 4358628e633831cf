"""Turns decoded YAML into typed values, with errors that a person can act on."""

from __future__ import annotations

import json
import re
from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T")

_MISSING: Final = re.compile(r"missing required field `(?P<field>[^`]+)`")
_UNKNOWN: Final = re.compile(r"unknown field `(?P<field>[^`]+)`")
_EXPECTED: Final = re.compile(r"Expected (?P<what>.*?)(?:, got `.*`)?$")
_WORDS: Final = {
    "object": "a mapping of fields",
    "array": "a list",
    "str": "text",
    "int": "a whole number",
    "bool": "true or false",
}
"""How msgspec's names of types read to somebody who writes YAML."""

_LONGEST_SHOWN: Final = 80
"""Characters of a value that a message repeats."""


class FieldError(ValueError):
    """One field that cannot be used: which, what it holds, and what to do about it."""

    def __init__(self, field: str, value: object, remedy: str) -> None:
        super().__init__(f"{field} {_shown(value)}: {remedy}")
        self.field = field
        self.value = value
        self.remedy = remedy


def convert(raw: Any, model: type[T]) -> T:
    """`raw` as the model, strictly: no text is taken for a number, no unknown field is passed over."""
    try:
        return msgspec.convert(raw, model)
    except msgspec.ValidationError as error:
        raise _explained(str(error), raw) from error


def _explained(text: str, raw: Any) -> FieldError:
    reason, _, path = text.partition(" - at `$")
    keys = re.findall(r"\.([^.\[\]`]+)", path)
    if missing := _MISSING.search(reason):
        return FieldError(".".join([*keys, missing["field"]]), None, "is required; add it")
    if unknown := _UNKNOWN.search(reason):
        keys = [*keys, unknown["field"]]
        return FieldError(".".join(keys), _at(raw, keys), "is no field of this file; correct its name or remove it")
    field = ".".join(keys) or "the whole entry"
    return FieldError(field, _at(raw, keys), _remedy(reason))


def _remedy(reason: str) -> str:
    expected = _EXPECTED.search(reason)
    what = re.sub(r"[a-z]+", _in_words, expected["what"], count=1).replace("`", "") if expected else reason
    quotes = ", in quotes" if what.startswith("text") and ", got " in reason else ""
    return f"write {what.replace(' | null', ' or null')}{quotes}"


def _in_words(type_name: re.Match[str]) -> str:
    return _WORDS.get(type_name[0], type_name[0])


def _at(raw: Any, keys: list[str]) -> Any:
    for key in keys:
        raw = raw.get(key) if isinstance(raw, dict) else None
    return raw


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
