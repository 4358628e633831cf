"""Brings the answers to our own writes into the informers, and notices when they cannot be true.

Guarantees   Every informer that holds the written kind is told before the writer goes on.
Assumptions  A write that was sent after a version was seen gets a higher one, unless it changed nothing.
Recovery     A lower version than that means that the server's store was restored from a backup: `went_back` is
             called, and whoever owns the caches lists everything anew. An answer that cannot be read is left to the
             watch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from gpustack_op.api.meta import KubeObject
from gpustack_op.runtime.decode import Codec
from gpustack_op.runtime.errors import MalformedAnswer
from gpustack_op.runtime.informer import Informer
from gpustack_op.runtime.versions import number
from gpustack_op.runtime.writes import Verb, Write

T = TypeVar("T", bound=KubeObject)


@dataclass(frozen=True, slots=True)
class Followed(Generic[T]):
    """What an informer knew when a write was sent."""

    informer: Informer[T]
    codec: Codec[T]
    processed: int | None
    known: T | None

    def answered(self, write: Write[Any], body: bytes) -> bool:
        """Takes the answer in; False when its version cannot follow those that were known."""
        content = msgspec.json.decode(body)
        if write.verb is Verb.DELETE and _is_gone(content):
            self._deleted(write, content)
            return True
        try:
            obj = self.codec.object(body)
            selected = self.informer.selector.matches(content)
        except (MalformedAnswer, ValueError):
            return True
        if self._went_back(write, obj):
            return False
        self.informer.wrote(obj, selected=selected)
        return True

    def _deleted(self, write: Write[Any], content: dict[str, Any]) -> None:
        told = (content.get("details") or {}).get("uid") or (content.get("metadata") or {}).get("uid")
        uid = told or write.uid or (self.known.uid if self.known is not None else "")
        self.informer.deleted((write.namespace, write.name), uid)

    def _went_back(self, write: Write[Any], obj: T) -> bool:
        version = number(obj.metadata.resource_version)
        if version is None or self.processed is None or version >= self.processed:
            return False
        if self.informer.is_undecodable((obj.namespace, obj.name)):
            return False
        if self.known is None:
            return write.verb is Verb.CREATE
        return self.known.metadata.resource_version != obj.metadata.resource_version


def follow(write: Write[Any], informers: Iterable[tuple[Informer[Any], Codec[Any]]]) -> list[Followed[Any]]:
    return [
        Followed(informer, codec, informer.processed, informer.get(write.name, write.namespace))
        for informer, codec in informers
    ]


def answered(write: Write[Any], followed: Iterable[Followed[Any]], body: bytes, went_back: Callable[[], None]) -> None:
    believable = [one.answered(write, body) for one in followed]
    if not all(believable):
        went_back()


def _is_gone(content: dict[str, Any]) -> bool:
    """Whether the answer to a deletion means that the object no longer exists; some kinds answer with the object."""
    if content.get("kind") == "Status":
        return True
    metadata = content.get("metadata") or {}
    if not metadata.get("deletionTimestamp"):
        return True
    # Absent for a namespace, which lives on until it is empty.
    return metadata.get("deletionGracePeriodSeconds") == 0 and not metadata.get("finalizers")
