"""What the API server asks of a webhook, and what a handler answers.

Guarantees   A review that is not an `admission.k8s.io/v1` AdmissionReview is a `ReviewError`, never a handler's
             problem. Every answer carries the review's own UID.
Assumptions  `object` and `old_object` are decoded JSON; an object made from `generateName` may have no name yet.
Recovery     None needed: the values are frozen and hold no connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

API_VERSION = "admission.k8s.io/v1"

WARNING_LIMIT = 256
"""Characters of one warning; the API server cuts longer ones when several add up."""


class ReviewError(ValueError):
    """The request body is no AdmissionReview of a version we know."""


@dataclass(frozen=True, slots=True)
class Kind:
    group: str = ""
    version: str = ""
    kind: str = ""

    @property
    def full_name(self) -> str:
        """`Kind.group`, as Kubernetes names a kind in its messages."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


@dataclass(frozen=True, slots=True)
class User:
    name: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """One question: may this operation on this object be done? In `resource`, the kind is the plural."""

    uid: str
    kind: Kind = Kind()
    resource: Kind = Kind()
    sub_resource: str = ""
    operation: str = ""
    name: str = ""
    namespace: str = ""
    user: User = User()
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    dry_run: bool = False

    @property
    def subject(self) -> str:
        """The object as a message names it; one from `generateName` goes by that."""
        metadata = (self.object or self.old_object or {}).get("metadata") or {}
        return f'{self.kind.kind} "{self.name or metadata.get("name") or metadata.get("generateName") or ""}"'


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason of a refusal. `type` is Kubernetes' word for it, such as `FieldValueInvalid`."""

    field: str
    message: str
    type: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """A handler's answer. Code and reason matter only when refused: 503 means ask again, 500 means a bug.

    Of a refusal with causes kubectl shows nothing but the causes and, if they are given, `kind` and `name`.
    """

    allowed: bool = True
    message: str = ""
    code: int = 403
    reason: str = "Forbidden"
    causes: tuple[Cause, ...] = ()
    warnings: tuple[str, ...] = ()
    kind: Kind = Kind()
    name: str = ""


ALLOWED = Verdict()


class RefusalError(Exception):
    """Raised by a handler, most of all by a defaulter, that will not have the object as it is."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.message)
        self.verdict = verdict


def unavailable(message: str) -> Verdict:
    """Cannot be judged now; the same request may be fine in a moment."""
    return Verdict(allowed=False, message=message, code=503, reason="ServiceUnavailable")


@dataclass(frozen=True, slots=True)
class Defaulted:
    """A defaulter's answer when it has something to tell the person as well."""

    object: dict[str, Any]
    warnings: tuple[str, ...] = ()


class Defaulter(Protocol):
    """Returns the whole new object. It may do so by changing the object it was given."""

    def __call__(self, request: AdmissionRequest, /) -> Awaitable[dict[str, Any] | Defaulted]: ...


class Validator(Protocol):
    def __call__(self, request: AdmissionRequest, /) -> Awaitable[Verdict]: ...


@dataclass(frozen=True, slots=True)
class Review:
    """A decoded review, and the object as it came: no handler can change what a patch starts from."""

    request: AdmissionRequest
    _object: bytes | memoryview = b"null"

    def original(self) -> dict[str, Any] | None:
        return _objects.decode(self._object)


class _WireKind(msgspec.Struct, frozen=True):
    group: str = ""
    version: str = ""
    kind: str = ""
    resource: str = ""


class _WireUser(msgspec.Struct, frozen=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None


class _WireRequest(msgspec.Struct, frozen=True, rename="camel"):
    uid: str
    kind: _WireKind = _WireKind()
    resource: _WireKind = _WireKind()
    sub_resource: str = ""
    operation: str = ""
    name: str = ""
    namespace: str = ""
    user_info: _WireUser = _WireUser()
    object: msgspec.Raw = msgspec.Raw(b"null")
    old_object: msgspec.Raw = msgspec.Raw(b"null")
    dry_run: bool | None = None


class _WireReview(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: _WireRequest | None = None


_reviews = msgspec.json.Decoder(_WireReview)
_objects = msgspec.json.Decoder(dict[str, Any] | None)


def read_review(body: bytes) -> Review:
    """Decodes a request body, or raises `ReviewError` saying what is wrong with it."""
    try:
        wire = _reviews.decode(body)
        if wire.kind != "AdmissionReview" or wire.api_version != API_VERSION or wire.request is None:
            raise ReviewError(f"expected an AdmissionReview of {API_VERSION} with a request")
        return Review(_request(wire.request), wire.request.object)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ReviewError(f"the body is no AdmissionReview: {error}") from error


def _request(wire: _WireRequest) -> AdmissionRequest:
    user = wire.user_info
    return AdmissionRequest(
        uid=wire.uid,
        kind=Kind(wire.kind.group, wire.kind.version, wire.kind.kind),
        resource=Kind(wire.resource.group, wire.resource.version, wire.resource.resource),
        sub_resource=wire.sub_resource,
        operation=wire.operation,
        name=wire.name,
        namespace=wire.namespace,
        user=User(user.username, user.uid, user.groups or ()),
        object=_objects.decode(wire.object),
        old_object=_objects.decode(wire.old_object),
        dry_run=bool(wire.dry_run),
    )


def write_answer(uid: str, verdict: Verdict, patch: Sequence[Mapping[str, Any]] = ()) -> bytes:
    """The AdmissionReview that goes back."""
    response: dict[str, Any] = {"uid": uid, "allowed": verdict.allowed}
    if not verdict.allowed:
        response["status"] = _status(verdict)
    if patch and verdict.allowed:
        response |= {"patchType": "JSONPatch", "patch": msgspec.json.encode(patch)}
    if verdict.warnings:
        response["warnings"] = [_shortened(warning) for warning in verdict.warnings]
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response})


def _status(verdict: Verdict) -> dict[str, Any]:
    status: dict[str, Any] = {
        "status": "Failure",
        "message": verdict.message,
        "reason": verdict.reason,
        "code": verdict.code,
    }
    if verdict.causes:
        causes = [{"reason": c.type, "message": c.message, "field": c.field} for c in verdict.causes]
        subject = {"name": verdict.name, "group": verdict.kind.group, "kind": verdict.kind.kind}
        status["details"] = {**{key: text for key, text in subject.items() if text}, "causes": causes}
    return status


def _shortened(warning: str) -> str:
    return warning if len(warning) <= WARNING_LIMIT else f"{warning[: WARNING_LIMIT - 1]}…"
