"""Texts as NVIDIA's library gives them: bytes or text, and now and then neither in any encoding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def text(value: object) -> str:
    """Empty when it cannot be read."""
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            return ""
    return value.strip() if isinstance(value, str) and value.isprintable() else ""


def text_of(question: Callable[[], Any]) -> str:
    """The text that a question is answered with. The bindings decode by themselves, and raise on what is no UTF-8."""
    try:
        return text(question())
    except UnicodeDecodeError:
        return ""
