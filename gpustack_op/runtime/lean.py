"""Codecs for caches: objects that keep only what somebody reads, and share what repeats.

Guarantees   Labels and annotations that the resource does not name are dropped before they are ever built. Equal
             label maps and owner references of different objects are one value in memory. Nothing refers to the
             wire's bytes.
Assumptions  Nobody changes a map of a cached object.
Recovery     The tables of shared values are emptied when they are full; objects keep what they have.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from hashlib import blake2b
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

import msgspec

from gpustack_op.api.meta import KubeObject, ObjectMeta, OwnerReference, Resource
from gpustack_op.runtime.decode import Codec, lenient

T = TypeVar("T", bound=KubeObject)
V = TypeVar("V")

LARGEST_TABLE: Final = 4 * 1024 * 1024
"""Bytes of keys in one table of shared values."""

ENTRY: Final = 100
"""Bytes that an entry takes beside its key."""

LONGEST_KEY: Final = 256
"""Bytes; a longer text is remembered by its digest: a Node's labels repeat with each of its events."""

MOST_KEYS: Final = 10_000
"""Different keys of labels that are remembered as kept or dropped; a cluster knows some hundreds."""

_NULL: Final = msgspec.Raw(b"null")
_SHARED: Final = ("labels", "annotations", "owner_references")


class Shared(Generic[V]):
    """Values by the bytes they were decoded from."""

    def __init__(self, decode: Callable[[bytes], V]) -> None:
        self._decode = decode
        self._known: dict[bytes, V] = {}
        self._size = 0

    def __len__(self) -> int:
        return len(self._known)

    def value(self, raw: msgspec.Raw) -> V | None:
        text = bytes(raw)
        if text in (b"null", b"{}", b"[]"):
            return None
        key = text if len(text) <= LONGEST_KEY else blake2b(text, digest_size=16).digest()
        found = self._known.get(key)
        return found if found is not None else self._add(key, self._decode(text))

    def _add(self, key: bytes, value: V) -> V:
        if self._size > LARGEST_TABLE:
            self._known.clear()
            self._size = 0
        self._known[key] = value
        self._size += len(key) + ENTRY
        return value


_all_labels: Final = lenient(msgspec.json.Decoder(dict[str, str]))
_owners: Final = Shared(lenient(msgspec.json.Decoder(tuple[OwnerReference, ...])))


def lean_codec(resource: Resource[T]) -> Codec[T]:
    """The codec with which a cache of this resource decodes."""
    labels = Shared(_keeping(resource.labels) if resource.labels else _all_labels)
    annotations = Shared(_keeping(resource.annotations)) if resource.annotations else None
    wire_meta = _wire(ObjectMeta, dict.fromkeys(_SHARED, (msgspec.Raw, _NULL)))
    wire = _wire(resource.model, {"metadata": (wire_meta, wire_meta())})
    return Codec(resource.model, wire=wire, finish=_finisher(resource.model, labels, annotations))


def _finisher(
    model: type[T], labels: Shared[dict[str, str]], annotations: Shared[dict[str, str]] | None
) -> Callable[[Any], T]:
    plain, plain_values = _getter(ObjectMeta, _SHARED)
    rest, rest_values = _getter(model, ("metadata",))

    def finish(wire: Any) -> T:
        meta = wire.metadata
        metadata = ObjectMeta(
            labels=labels.value(meta.labels),
            annotations=annotations.value(meta.annotations) if annotations is not None else None,
            owner_references=_owners.value(meta.owner_references),
            **dict(zip(plain, plain_values(meta), strict=True)),
        )
        return model(metadata=metadata, **dict(zip(rest, rest_values(wire), strict=True)))

    return finish


def _getter(model: type[msgspec.Struct], without: tuple[str, ...]) -> tuple[tuple[str, ...], Callable[[Any], Any]]:
    """The names of the other fields, and what reads their values as a tuple."""
    names = tuple(name for name in model.__struct_fields__ if name not in without)
    if len(names) > 1:
        return names, attrgetter(*names)
    return names, lambda value: tuple(getattr(value, name) for name in names)


def _wire(model: type[msgspec.Struct], replaced: dict[str, tuple[Any, Any]]) -> Any:
    """The model again, with other types for some fields."""
    fields = [
        (field.name, *replaced[field.name]) if field.name in replaced else (field.name, field.type, _default(field))
        for field in msgspec.structs.fields(model)
    ]
    spelling = {field.name: field.encode_name for field in msgspec.structs.fields(model)}
    return msgspec.defstruct(f"Wire{model.__name__}", fields, rename=spelling, kw_only=True, frozen=True, gc=False)


def _default(field: Any) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.field(default_factory=field.default_factory)
    return field.default


def _keeping(wanted: tuple[str, ...]) -> Callable[[bytes], dict[str, str]]:
    """Keeps the named keys, and those that begin with a name that ends in `/` or `.`."""
    prefixes = tuple(name for name in wanted if name.endswith(("/", ".")))
    names = frozenset(wanted)
    known: dict[str, str] = {}

    def judged(key: str) -> str:
        """The key to keep, empty for one to drop. The decoder shares short keys only, so they are interned."""
        if len(known) >= MOST_KEYS:
            known.clear()
        known[key] = sys.intern(key) if key in names or key.startswith(prefixes) else ""
        return known[key]

    def decode(raw: bytes) -> dict[str, str]:
        kept = {}
        for key, value in _all_labels(raw).items():
            name = known.get(key)
            if name is None:
                name = judged(key)
            if name:
                kept[name] = value
        return kept

    return decode
