"""Whether an object in the cluster already is as we want it, and if not, what is left to do.

Guarantees   Only what is desired is compared, so fields that the server or other programs fill in never count. At the
             paths named in `Owned.quantities` texts compare as amounts (`2048Mi` is `2Gi`). A desired None means
             "must be absent". In the maps named in `Owned.exact` keys that are not desired count as a difference. An
             empty list is an absent one; an empty map is not, since an empty selector selects everything, except in
             metadata, where servers drop it.
Assumptions  `present` is a projection: a struct with the fields we read. What is compared must be among them.
Recovery     A desired field that the projection lacks could never compare equal and would be written for ever: that
             is a defect and raises `UnknownFieldError` at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec

from gpustack_op.api.meta import KubeObject
from gpustack_op.api.quantity import Quantity, QuantityError

Path = tuple[str, ...]

SAME: Final = object()
_ABSENT: Final = object()
_METADATA: Final = ("labels", "annotations", "ownerReferences", "finalizers")
_NEVER_COMPARED: Final[tuple[Path, ...]] = (("metadata", "ownerReferences", "*", "blockOwnerDeletion"),)


@dataclass(frozen=True, slots=True)
class Owned:
    """How far our say goes in an object.

    exact       dotted paths of maps that hold our keys and no other: `spec.labels`. With `metadata.labels[prefix*]`
                only keys of that prefix count; with `status.**` the map and everything in it.
                Danger: two writers with one exact map remove each other's keys for ever.
    quantities  dotted paths, `*` for any key or index, whose values are amounts.
    ignored     dotted paths that are written along but never compared, such as a transition time.
    """

    exact: tuple[str, ...] = ()
    quantities: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


class UnknownFieldError(Exception):
    """A desired field is not declared by the projection, so nobody can tell whether it is there."""


def differs(desired: Mapping[str, Any], present: KubeObject, owned: Owned | None = None) -> bool:
    return bool(remainder(desired, present, owned))


def remainder(desired: Mapping[str, Any], present: KubeObject, owned: Owned | None = None) -> dict[str, Any]:
    """The JSON merge patch that would make `present` as desired; empty when it is."""
    compare = _Comparison(_rules(owned or Owned()), type(present).__name__)
    patch: dict[str, Any] = {}
    for key, value in desired.items():
        if key == "metadata":
            _keep(patch, key, compare.metadata(value, present))
        elif key not in ("apiVersion", "kind"):
            _keep(patch, key, compare.field((), key, value, present))
    return patch


def same_amount(one: object, other: object) -> bool:
    """Whether two values of a quantity field are equal by value; what is no quantity equals only itself."""
    if one == other:
        return isinstance(one, bool) == isinstance(other, bool)
    amount = _amount(one)
    return amount is not None and amount == _amount(other)


@dataclass(frozen=True, slots=True)
class _Rules:
    exact: tuple[tuple[Path, str], ...]
    quantities: tuple[Path, ...]
    ignored: tuple[Path, ...]


@lru_cache(maxsize=1024)
def _rules(owned: Owned) -> _Rules:
    def split(paths: tuple[str, ...]) -> tuple[Path, ...]:
        return tuple(tuple(path.split(".")) for path in paths)

    exact = []
    for path in owned.exact:
        base, _, prefix = path.partition("[")
        exact.append((tuple(base.split(".")), prefix.removesuffix("]").removesuffix("*")))
    return _Rules(tuple(exact), split(owned.quantities), (*split(owned.ignored), *_NEVER_COMPARED))


class _Comparison:
    def __init__(self, rules: _Rules, model: str) -> None:
        self._rules = rules
        self._model = model

    def metadata(self, desired: Mapping[str, Any], present: KubeObject) -> object:
        patch: dict[str, Any] = {}
        for key in _METADATA:
            if key not in desired:
                continue
            has = getattr(present.metadata, _fields(type(present.metadata))[key][0])
            path = ("metadata", key)
            if key in ("labels", "annotations"):
                _keep(patch, key, self._map(path, desired[key] or {}, has or {}))
            else:
                _keep(patch, key, self._members(path, desired[key] or (), has or ()))
        return patch or SAME

    def field(self, path: Path, key: str, desired: object, present: object) -> object:
        """Compare one key of a map or struct."""
        inner = (*path, key)
        if _matches(inner, self._rules.ignored):
            return SAME
        return self._value(inner, desired, self._read(present, key, inner))

    def _value(self, path: Path, desired: object, present: object) -> object:
        if desired is None:
            return SAME if _is_default(present) else None
        if isinstance(desired, Mapping):
            return self._whole_map(path, desired, present)
        if isinstance(desired, Sequence) and not isinstance(desired, str):
            return SAME if self._same_list(path, desired, present) else list(desired)
        return SAME if self._same_scalar(path, desired, present) else desired

    def _whole_map(self, path: Path, desired: Mapping[str, Any], present: object) -> object:
        if isinstance(present, Mapping | msgspec.Struct):
            return self._map(path, desired, present)
        return dict(desired) if desired or len(path) > 1 else SAME

    def _map(self, path: Path, desired: Mapping[str, Any], present: Mapping[str, Any] | msgspec.Struct) -> object:
        patch: dict[str, Any] = {}
        for key, value in desired.items():
            _keep(patch, key, self.field(path, key, value, present))
        for key in self._too_many(path, desired, present):
            patch[key] = None
        return patch or SAME

    def _too_many(
        self, path: Path, desired: Mapping[str, Any], present: Mapping[str, Any] | msgspec.Struct
    ) -> list[str]:
        prefixes = tuple(prefix for pattern, prefix in self._rules.exact if _match(path, pattern))
        if not prefixes:
            return []
        ignored = self._rules.ignored
        return [
            key
            for key in _stated(present)
            if key not in desired and key.startswith(prefixes) and not _matches((*path, key), ignored)
        ]

    def _same_list(self, path: Path, desired: Sequence[Any], present: object) -> bool:
        items = present if isinstance(present, Sequence) and not isinstance(present, str) else ()
        return len(items) == len(desired) and all(
            self._value((*path, str(index)), wanted, item) is SAME
            for index, (wanted, item) in enumerate(zip(desired, items, strict=True))
        )

    def _same_scalar(self, path: Path, desired: object, present: object) -> bool:
        if _matches(path, self._rules.quantities):
            return same_amount(desired, present)
        return desired == present and isinstance(desired, bool) == isinstance(present, bool)

    def _members(self, path: Path, desired: Sequence[Any], present: Sequence[Any]) -> object:
        """A list that others have entries in too: ours must be among them."""
        lacking = [
            wanted for wanted in desired if not any(self._value((*path, "*"), wanted, has) is SAME for has in present)
        ]
        if not lacking:
            return SAME
        others = [msgspec.to_builtins(has) for has in present if not any(_one_entry(has, new) for new in lacking)]
        return [*others, *lacking]

    def _read(self, present: object, key: str, path: Path) -> object:
        if isinstance(present, msgspec.Struct):
            field = _fields(type(present)).get(key)
            if field is None:
                raise UnknownFieldError(f"{self._model} declares no field {'.'.join(path)}, so it cannot be compared")
            return getattr(present, field[0])
        return present.get(key) if isinstance(present, Mapping) else None


def _keep(patch: dict[str, Any], key: str, value: object) -> None:
    if value is not SAME:
        patch[key] = value


def _is_default(present: object) -> bool:
    return not present or (isinstance(present, msgspec.Struct) and not _stated(present))


def _one_entry(present: object, desired: object) -> bool:
    if isinstance(present, msgspec.Struct) and isinstance(desired, Mapping):
        return getattr(present, "uid", None) == desired.get("uid")
    return present == desired


def _stated(present: Mapping[str, Any] | msgspec.Struct) -> list[str]:
    """The keys that somebody set: in a struct, those that are not at their default."""
    if isinstance(present, Mapping):
        return list(present)
    fields = _fields(type(present)).items()
    return [key for key, (attribute, default) in fields if getattr(present, attribute) not in (default, None)]


@lru_cache(maxsize=1024)
def _fields(model: type[msgspec.Struct]) -> Mapping[str, tuple[str, Any]]:
    """The fields of a struct by their name on the wire: attribute and default."""
    return {field.encode_name: (field.name, field.default) for field in msgspec.structs.fields(model)}


def _matches(path: Path, patterns: tuple[Path, ...]) -> bool:
    return any(_match(path, pattern) for pattern in patterns)


def _match(path: Path, pattern: Path) -> bool:
    if pattern[-1] == "**":
        pattern = pattern[:-1]
        path = path[: len(pattern)]
    return len(path) == len(pattern) and all(want in ("*", part) for part, want in zip(path, pattern, strict=True))


@lru_cache(maxsize=4096, typed=True)
def _amount(value: object) -> Quantity | None:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    try:
        return Quantity.parse(value)
    except QuantityError:
        return None
