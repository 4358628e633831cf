"""What speaks against an object: a field, what is wrong with it, and a sentence. Webhooks word it for a person."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Fault(Enum):
    REQUIRED = "required"
    INVALID = "invalid"
    FORBIDDEN = "forbidden"


@dataclass(frozen=True, slots=True)
class Breach:
    """`field` is a path as `kubectl explain` takes it; `value`, as it was written, matters when it is invalid."""

    field: str
    fault: Fault
    detail: str
    value: str = ""


def required(field: str, detail: str) -> Breach:
    return Breach(field, Fault.REQUIRED, detail)


def invalid(field: str, value: object, detail: str) -> Breach:
    return Breach(field, Fault.INVALID, detail, str(value))


def forbidden(field: str, detail: str) -> Breach:
    return Breach(field, Fault.FORBIDDEN, detail)
