"""Refusals that name their field, worded as Kubernetes words its own.

Guarantees   All errors of an object are told at once, in one message and as one cause each:
             `InstanceType.worker.gpustack.ai "big" is invalid: [spec.os: Required value: must be specified, ...]`.
Assumptions  Paths are dotted, as `kubectl explain` takes them.
Recovery     None needed: pure functions.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from gpustack_op.runtime.webhook.review import ALLOWED, Cause, Kind, Verdict

_SHOWN_LIMIT = 100
"""Characters of a refused value that are repeated in the message."""


def required(field: str, detail: str) -> Cause:
    return Cause(field, f"Required value: {detail}", "FieldValueRequired")


def invalid(field: str, value: Any, detail: str) -> Cause:
    return Cause(field, f"Invalid value: {shown(value)}: {detail}", "FieldValueInvalid")


def forbidden(field: str, detail: str) -> Cause:
    return Cause(field, f"Forbidden: {detail}", "FieldValueForbidden")


def too_long(field: str, limit: int) -> Cause:
    """`limit` in characters."""
    return Cause(field, f"Too long: may not be more than {limit} characters", "FieldValueTooLong")


def shown(value: Any) -> str:
    """A value as a person wrote it: text in quotes, the rest as JSON, nothing endless."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN_LIMIT else f"{text[: _SHOWN_LIMIT - 1]}…"


def judged(kind: Kind, name: str, causes: Sequence[Cause], *, warnings: tuple[str, ...] = ()) -> Verdict:
    """Allowed when there is no cause against it; else Invalid, with all of them."""
    if not causes:
        return Verdict(warnings=warnings) if warnings else ALLOWED
    told = [f"{cause.field}: {cause.message}" for cause in causes]
    listed = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
    return Verdict(
        allowed=False,
        message=f'{kind.full_name} "{name}" is invalid: {listed}',
        code=422,
        reason="Invalid",
        causes=tuple(causes),
        warnings=warnings,
        kind=kind,
        name=name,
    )
