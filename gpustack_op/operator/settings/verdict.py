"""Which of the places where a setting can be written decides.

A setting can be written in the Secret, which is the store, and in the Setting object. The Setting's spec is a person's
edit when it differs from the value in force (its status), unless the operator has just copied it there from the Secret
and not yet brought the status along. An edit goes to the Secret; in every other case the Secret decides.

Promises  A text that does not parse never takes effect: the last good value stays in force, and the message says which
          place holds what is wrong. A setting that is stored nowhere gets its seed. The verdict on its own outcome is
          the same outcome, at any point between the writes that bring it about.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpustack_op.operator.settings.catalog import Declaration
from gpustack_op.operator.settings.value_types import shown
from gpustack_op.scheduling.names import SETTINGS_SECRET


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All that is known of one setting; None where nothing is written."""

    stored: bytes | None = None
    """The Secret's key."""

    spec: str | None = None
    """The Setting's `spec.value`."""

    in_force: str | None = None
    """The Setting's `status.value`."""

    copied: str | None = None
    """What the operator last wrote into the spec, until the status has followed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    value: str
    """What is in force, and what the status says."""

    spec: str
    """What the spec should say: the value in force, or a bad edit that is left for its author to see."""

    store: str | None = None
    """What to write to the Secret; None leaves it."""

    message: str = ""
    """What is wrong; empty when nothing is."""


def judge(declared: Declaration, seen: Seen, seed: str) -> Verdict:
    stored, stored_refusal = _stored(declared, seen.stored)
    edit = _edit(seen)
    edit_refusal = declared.refusal(edit) if edit is not None else None
    if edit is not None and edit_refusal is None:
        value = edit.strip()
        return Verdict(value=value, spec=value, store=None if stored == value else value)
    last = _last_good(declared, seen)
    store = seed if seen.stored is None else None
    value = next(text for text in (store, stored, last, declared.default) if text is not None)
    complaints = [f"key {declared.name} of Secret {SETTINGS_SECRET}: {stored_refusal}"] if stored_refusal else []
    spec = value
    if edit is not None and last in (None, value):
        # Left for its author to see, until a newer value comes from the Secret.
        complaints.insert(0, f"spec.value: {edit_refusal}")
        spec = edit
    return Verdict(value=value, spec=spec, store=store, message=_message(complaints, value))


def _last_good(declared: Declaration, seen: Seen) -> str | None:
    return seen.in_force if seen.in_force is not None and declared.refusal(seen.in_force) is None else None


def _edit(seen: Seen) -> str | None:
    """What a person wrote into the spec, if it is that."""
    return None if seen.spec in (None, seen.in_force, seen.copied) else seen.spec


def _stored(declared: Declaration, raw: bytes | None) -> tuple[str | None, str | None]:
    """The Secret's text, or why it is no value."""
    if raw is None:
        return None, None
    try:
        text = raw.decode().strip()
    except UnicodeDecodeError:
        return None, "its bytes are no UTF-8 text"
    refusal = declared.refusal(text)
    return (None, refusal) if refusal else (text, None)


def _message(complaints: list[str], value: str) -> str:
    return f"{'; '.join(complaints)}. In force is {shown(value) if value else 'the blank value'}." if complaints else ""
