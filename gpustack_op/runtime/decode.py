"""Objects, lists and watch events straight from the wire's bytes.

Guarantees   One typed pass: fields that a model does not declare are skipped, never built. A null reads as an absent
             field, at any depth. What cannot be decoded raises MalformedAnswer, which never shows a value, only the
             place.
Assumptions  Models give every field a default. Decoders are built once a type.
Recovery     A list with one bad object gives all the others (`page`); who the bad one was is told where it can be
             read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec

from gpustack_op.api.meta import KubeObject, PartialObject
from gpustack_op.runtime.errors import MalformedAnswer

T = TypeVar("T", bound=KubeObject)
V = TypeVar("V")

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
"""Annotation of the bookmark that ends a streamed list."""


@dataclass(frozen=True, slots=True)
class Event(Generic[T]):
    """`type` is ADDED, MODIFIED or DELETED."""

    type: str
    object: T


@dataclass(frozen=True, slots=True)
class Bookmark:
    version: str
    ends_list: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """The Status in an ERROR event."""

    status: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Undecodable:
    """An object that is there but cannot be read; `known` is as much as could be."""

    reason: str
    known: KubeObject
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    items: list[T]
    undecodable: list[Undecodable]
    version: str
    continuation: str


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continuation: str = msgspec.field(name="continue", default="")


class _Reported(msgspec.Struct):
    type: str = ""
    object: dict[str, Any] = msgspec.field(default_factory=dict)


class _RawPage(msgspec.Struct):
    metadata: _ListMeta = _ListMeta()
    items: tuple[msgspec.Raw, ...] = ()


class _RawEvent(msgspec.Struct):
    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"{}")


def lenient(decoder: msgspec.json.Decoder[V]) -> Callable[[bytes | msgspec.Raw], V]:
    """Decodes; only what fails because of a null is looked at a second time, without its nulls."""
    strict = decoder.decode

    def decode(data: bytes | msgspec.Raw) -> V:
        try:
            return strict(data)
        except msgspec.ValidationError:
            return strict(msgspec.json.encode(_without_nulls(msgspec.json.decode(data))))

    return decode


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(inner) for inner in value]
    return value


_reported = lenient(msgspec.json.Decoder(_Reported))
_raw_page = lenient(msgspec.json.Decoder(_RawPage))
_raw_event = msgspec.json.Decoder(_RawEvent).decode
_partial = lenient(msgspec.json.Decoder(PartialObject))


class Codec(Generic[T]):
    """Decodes what the API sends of one model.

    `wire` is what is decoded, and `finish` makes the model of it; by default both are the model itself.
    """

    def __init__(self, model: type[T], *, wire: Any = None, finish: Callable[[Any], T] | None = None) -> None:
        wire = wire or model
        event = msgspec.defstruct("WireEvent", [("type", str, ""), ("object", wire, wire())], gc=False)
        page = msgspec.defstruct("WirePage", [("metadata", _ListMeta, _ListMeta()), ("items", tuple[wire, ...], ())])
        self._finish = finish or _as_it_is
        self._object = lenient(msgspec.json.Decoder(wire))
        self._event: Callable[[bytes], Any] = lenient(msgspec.json.Decoder(event))
        # Not lenient: a page with one bad object is taken apart instead.
        self._page: Callable[[bytes], Any] = msgspec.json.Decoder(page).decode

    def object(self, data: bytes | msgspec.Raw) -> T:
        try:
            return self._finish(self._object(data))
        except ValueError as error:
            raise MalformedAnswer(str(error)) from None

    def event(self, line: bytes) -> Event[T] | Bookmark | Failure | Undecodable:
        """What one line of a watch says; raises MalformedAnswer when not even that can be read."""
        # The API server writes the type first. Should somebody between us not, it is looked at below.
        if line.startswith((b'{"type":"BOOKMARK"', b'{"type":"ERROR"')):
            return _report(line)
        try:
            event = self._event(line)
            if event.type in ("ADDED", "MODIFIED", "DELETED"):
                return Event(event.type, self._finish(event.object))
        except ValueError as error:
            return _damaged_event(line, error)
        return _report(line)

    def page(self, data: bytes) -> Page[T]:
        """A page of a list; raises MalformedAnswer when it is no list at all."""
        try:
            page = self._page(data)
            items = [self._finish(item) for item in page.items]
            return Page(items, [], page.metadata.resource_version, page.metadata.continuation)
        except ValueError:
            return self._page_apart(data)

    def whole_page(self, data: bytes) -> list[T]:
        """The objects of a page; one that cannot be decoded raises MalformedAnswer."""
        page = self.page(data)
        for damaged in page.undecodable:
            raise MalformedAnswer(f"{damaged.known.namespace}/{damaged.known.name}: {damaged.reason}")
        return page.items

    def _page_apart(self, data: bytes) -> Page[T]:
        try:
            page = _raw_page(data)
        except ValueError as error:
            raise MalformedAnswer(str(error)) from None
        items: list[T] = []
        undecodable: list[Undecodable] = []
        for raw in page.items:
            try:
                items.append(self.object(raw))
            except MalformedAnswer as error:
                undecodable.append(Undecodable(str(error), _known(raw)))
        return Page(items, undecodable, page.metadata.resource_version, page.metadata.continuation)


_codecs: Final[dict[type, Codec[Any]]] = {}


def codec_for(model: type[T]) -> Codec[T]:
    """The codec that keeps all labels and annotations, for answers to direct requests; one per model."""
    if model not in _codecs:
        _codecs[model] = Codec(model)
    return _codecs[model]


def _as_it_is(decoded: Any) -> Any:
    return decoded


def _report(line: bytes) -> Bookmark | Failure:
    try:
        report = _reported(line)
    except ValueError as error:
        raise MalformedAnswer(str(error)) from None
    if report.type == "ERROR":
        return Failure(report.object)
    if report.type != "BOOKMARK":
        raise MalformedAnswer(f"a watch event of unknown type {report.type!r}")
    metadata = report.object.get("metadata") or {}
    ends = (metadata.get("annotations") or {}).get(INITIAL_EVENTS_END) == "true"
    return Bookmark(str(metadata.get("resourceVersion") or ""), ends)


def _damaged_event(line: bytes, error: ValueError) -> Bookmark | Failure | Undecodable:
    try:
        event = _raw_event(line)
    except ValueError:
        raise MalformedAnswer(str(error)) from None
    if event.type in ("BOOKMARK", "ERROR"):
        return _report(line)
    return Undecodable(str(error), _known(event.object), deleted=event.type == "DELETED")


def _known(raw: msgspec.Raw) -> KubeObject:
    try:
        return _partial(raw)
    except ValueError:
        return PartialObject()
