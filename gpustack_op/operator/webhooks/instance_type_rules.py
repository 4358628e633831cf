"""What an InstanceType may say, and what about it may change.

Promises  All that is wrong is told at once. A rule looks at the object alone, never at the cluster: a type whose
          hardware is not there yet is accepted, see `instance_type_hints`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpustack_op.api.quantity import Quantity, QuantityError
from gpustack_op.runtime.webhook.field_errors import forbidden, invalid, required, too_long
from gpustack_op.runtime.webhook.review import Cause
from gpustack_op.scheduling.sanitise import LABEL_LIMIT

Spec = Mapping[str, Any]

EDITABLE = ("displayName", "description", "inactive")
DESCRIPTORS = ("manufacturer", "product", "family", "memory", "cores", "feature")
"""Each may go once from absent to a value."""

IMMUTABLE = "is immutable except displayName, description and inactive"
QUANTITIES = ("unitResources.cpu", "unitResources.ram", "localStorage", "memory", "cores")
"""Dotted paths of the fields that hold a quantity, and may hold a whole number instead of a text."""

_LIMITS = {"displayName": 64, "description": 1024}
_INT32 = 2**31 - 1
_WHOLE = re.compile(r"[1-9][0-9]{0,9}")
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")

_NEED_WHOLE = "must be a positive integer with no unit suffix"
_NEED_GI = 'must be a positive integer with a case-sensitive "Gi" suffix'
_NEED_ONE = "must be 1 when acceleratable is false"
_NEED_QUANTITY = "must be a quantity, such as 24Gi or 10240"
_NEED_LABEL = (
    f"must be usable in a label: at most {LABEL_LIMIT} letters, digits, '-', '_' and '.', "
    "with a letter or digit at both ends"
)


def creation_causes(spec: Spec) -> list[Cause]:
    """Everything that speaks against a new type."""
    return [*_groups(spec), *_system(spec), *_sizes(spec), *_texts(spec)]


def change_causes(old: Spec, new: Spec) -> list[Cause]:
    """Everything that speaks against a change. Rules for creation are not asked again, so that a type older than a
    rule can still be renamed or closed."""
    frozen = [] if _frozen(old, old) == _frozen(old, new) else [forbidden("spec", IMMUTABLE)]
    return frozen + list(_texts(new))


def untyped_causes(spec: Spec) -> list[Cause]:
    """Complaints about what is no quantity where one belongs, such as the fractions and truth values that YAML makes of
    unquoted text. The schema would refuse it too, without knowing what the rest of the spec asks for."""
    untyped = {f"spec.{path}" for path in QUANTITIES if _is_unreadable(value_at(spec, path))}
    return [cause for cause in [*_sizes(spec), *_descriptors(spec)] if cause.field in untyped]


def value_at(spec: Spec, path: str) -> Any:
    """The value at a dotted path; None when it, or a parent of it, is absent."""
    value: Any = spec
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def usable_in_label(text: str) -> bool:
    return len(text) <= LABEL_LIMIT and _LABEL.fullmatch(text) is not None


def _groups(spec: Spec) -> Iterator[Cause]:
    if spec.get("acceleratable") and not spec.get("acceleratorGroup"):
        yield required("spec.acceleratorGroup", "must be specified when acceleratable is true")
    for field in ("acceleratorGroup", "generalGroup"):
        yield from _legal_in_label(spec, field)


def _system(spec: Spec) -> Iterator[Cause]:
    for field in ("os", "arch"):
        if not spec.get(field):
            yield required(f"spec.{field}", "must be specified")
        yield from _legal_in_label(spec, field)


def _legal_in_label(spec: Spec, field: str) -> Iterator[Cause]:
    text = spec.get(field) or ""
    if text and not usable_in_label(text):
        yield invalid(f"spec.{field}", text, _NEED_LABEL)


def _sizes(spec: Spec) -> Iterator[Cause]:
    need_cpu, detail = (_is_whole, _NEED_WHOLE) if spec.get("acceleratable") else (_is_one, _NEED_ONE)
    yield from _checked(spec, "unitResources.cpu", need_cpu, detail)
    yield from _checked(spec, "unitResources.ram", _is_gi, _NEED_GI)
    yield from _checked(spec, "localStorage", _is_gi, _NEED_GI)


def _descriptors(spec: Spec) -> Iterator[Cause]:
    for field in ("memory", "cores"):
        if value_at(spec, field) is not None:
            yield from _checked(spec, field, _is_quantity, _NEED_QUANTITY)


def _texts(spec: Spec) -> Iterator[Cause]:
    for field, limit in _LIMITS.items():
        if len(spec.get(field) or "") > limit:
            yield too_long(f"spec.{field}", limit)


def _checked(spec: Spec, path: str, good: Callable[[str], bool], detail: str) -> Iterator[Cause]:
    """A whole number counts like the text of it; anything else that is no text is never good."""
    value = value_at(spec, path)
    value = "" if value is None else value
    if isinstance(value, bool) or not isinstance(value, str | int) or not good(str(value)):
        yield invalid(f"spec.{path}", str(value) if type(value) is int else value, detail)


def _is_whole(text: str) -> bool:
    return _WHOLE.fullmatch(text) is not None and int(text) <= _INT32


def _is_gi(text: str) -> bool:
    return text.endswith("Gi") and _is_whole(text.removesuffix("Gi"))


def _is_one(text: str) -> bool:
    return _is_quantity(text) and Quantity.parse(text) == Quantity.parse(1)


def _is_quantity(text: str) -> bool:
    try:
        Quantity.parse(text)
    except QuantityError:
        return False
    return True


def _is_unreadable(value: Any) -> bool:
    return isinstance(value, bool | float) or (isinstance(value, str) and not _is_quantity(value))


def _frozen(old: Spec, spec: Spec) -> dict[str, Any]:
    """What of `spec` must be as it was in `old`, in one spelling. A null is an absent field."""
    still_open = {*EDITABLE, *(name for name in DESCRIPTORS if old.get(name) is None)}
    return {name: _spelt(value) for name, value in spec.items() if name not in still_open and value is not None}


def _spelt(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _spelt(inner) for key, inner in value.items() if inner is not None}
    return str(value) if type(value) is int else value
