"""How an Event of events.k8s.io/v1 is written.

Guarantees   What is written is accepted by the API server, whatever the lengths of names and texts: texts are cut at
             their limits, at a character's edge. Events about cluster-scoped objects go to namespace `default`.
Assumptions  The regarded object has a legal name.
Recovery     None needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from gpustack_op.api.meta import KubeObject, PartialObject, Resource

Type = Literal["Normal", "Warning"]

EVENTS: Resource[PartialObject] = Resource("events.k8s.io", "v1", "events", "Event", PartialObject, namespaced=True)

NOTE_LIMIT = 1024
REASON_LIMIT = ACTION_LIMIT = INSTANCE_LIMIT = 128
CONTROLLER_NAME_LIMIT = 63
OBJECT_NAME_LIMIT = 253


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """The object an event is about."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""

    @property
    def event_namespace(self) -> str:
        return self.namespace or "default"


@dataclass(frozen=True, slots=True)
class Occurrence:
    """What happened to what. Equal occurrences in short succession are one series."""

    regarding: ObjectReference
    type: Type
    reason: str
    action: str
    note: str


def reference(present: KubeObject, resource: Resource[Any] | None = None) -> ObjectReference:
    """People find an event by the object's kind, name and UID; the version is there for completeness."""
    version, kind = (resource.api_version, resource.kind) if resource else ("", type(present).__name__)
    return ObjectReference(version, kind, present.name, present.namespace, present.uid)


def event_body(occurrence: Occurrence, *, name: str, time: str, controller: str, instance: str) -> dict[str, Any]:
    regarding = occurrence.regarding
    return {
        "metadata": {"name": name, "namespace": regarding.event_namespace},
        "eventTime": time,
        "reportingController": controller_name(controller),
        "reportingInstance": cut(instance, INSTANCE_LIMIT) or "unknown",
        "action": cut(occurrence.action, ACTION_LIMIT),
        "reason": cut(occurrence.reason, REASON_LIMIT),
        "type": occurrence.type,
        "note": cut(occurrence.note, NOTE_LIMIT),
        "regarding": {
            "kind": regarding.kind,
            "name": regarding.name,
            **({"apiVersion": regarding.api_version} if regarding.api_version else {}),
            **({"namespace": regarding.namespace} if regarding.namespace else {}),
            **({"uid": regarding.uid} if regarding.uid else {}),
        },
    }


def event_name(regarding: ObjectReference, unique: str) -> str:
    """`<object>.<unique>`, as kubectl's users know it; a legal name whatever the object's length."""
    return f"{regarding.name[: OBJECT_NAME_LIMIT - len(unique) - 1].rstrip('.-')}.{unique}"


def controller_name(name: str) -> str:
    """A qualified name: a prefix of any length, and at most 63 characters after the slash."""
    prefix, slash, last = name.rpartition("/")
    return f"{prefix}{slash}{last[:CONTROLLER_NAME_LIMIT].rstrip('-_.')}"


def cut(text: str, limit: int) -> str:
    """At most `limit` bytes of UTF-8."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= limit:
        return encoded.decode()
    return encoded[: limit - len("…".encode())].decode(errors="ignore") + "…"
