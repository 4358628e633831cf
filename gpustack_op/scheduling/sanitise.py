"""Turns what vendors print on their chips into text that Kubernetes accepts.

Guarantees   A slug matches `[a-z0-9]([a-z0-9._-]*[a-z0-9])?` or is empty; a label value is legal or empty. Both are
             idempotent, never raise, and give the same answer for the spaced and the dashed spelling of a name.
Never        invents a fallback: whoever needs a name that is not empty says which (see `accelerator_key`).
"""

from __future__ import annotations

import re

LABEL_LIMIT = 63
"""Characters in a label value and in the name part of a label key; Kubernetes' own limit."""

_SEPARATORS = frozenset("-_.")
_LOWER = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_UPPER = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_TRADEMARKS = re.compile(r"\((?:R|r|TM|tm)\)")
_LEADING_CRUFT = re.compile(r"\A(?:Genuine |[0-9]+(?:st|nd|rd|th) Gen )+")
_CORE_COUNT = re.compile(r" [0-9]+-cores?\Z", re.IGNORECASE)


def slug(name: str, *, prefix: str = "", limit: int = 0, cruft: bool = False) -> str:
    """A lower-case name for a product.

    `prefix` is a manufacturer id to drop from the front, `limit` the longest result (0: none), and `cruft` removes
    what CPU vendors add to a model name: trademarks, clock, generation, core count.
    """
    return _squeeze(without_cruft(name) if cruft else name, prefix=prefix, limit=limit, keep_case=False)


def label_value(text: str) -> str:
    """The nearest legal label value, in the text's own case; empty when nothing of it is legal."""
    return _squeeze(text, prefix="", limit=LABEL_LIMIT, keep_case=True)


def without_cruft(name: str) -> str:
    """A CPU's name without clock, trademarks, generation, `CPU`, `Processor` and core count. The order matters."""
    text = _TRADEMARKS.sub("", name.split(" @ ", 1)[0])
    text = _LEADING_CRUFT.sub("", text).strip()
    text = text.removesuffix(" CPU").removesuffix(" Processor")
    return _CORE_COUNT.sub("", text)


def _squeeze(text: str, *, prefix: str, limit: int, keep_case: bool) -> str:
    """Keeps ASCII letters and digits and the first separator of each run, up to the limit."""
    kept = ""
    for character in text:
        kept += _kept_form(character, after=kept[-1:], keep_case=keep_case)
        if prefix and kept == prefix:
            kept = ""
        if 0 < limit <= len(kept):
            break
    return kept[:-1] if kept[-1:] in _SEPARATORS else kept


def _kept_form(character: str, *, after: str, keep_case: bool) -> str:
    """What becomes of one character when `after` is the last one kept; empty when it is dropped."""
    if character in _LOWER:
        return character
    if character in _UPPER:
        return character if keep_case else character.lower()
    separator = "-" if character == " " else character
    if separator in _SEPARATORS and after and after not in _SEPARATORS:
        return separator
    return ""
