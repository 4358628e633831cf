"""How settings are written, and what is said when one is written wrongly.

Promises  A type reads every text it accepts into one Python value, and refuses any other with a message that shows the
          text and says how to write it. Blanks around a value never matter: `echo true | base64` is as good as
          `printf true | base64`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Protocol

Value = bool | str | float | tuple[str, ...]

_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SPAN: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_DURATION: Final = re.compile(rf"(?:{_SPAN.pattern})+|0")
LONGEST_DURATION: Final = 366 * 24 * 3600.0
"""Seconds. Longer than anyone means, and short enough that every timer takes it."""


class SettingError(ValueError):
    """A text that is no value of its setting."""


class ValueType(Protocol):
    @property
    def name(self) -> str:
        """As people are told, in `Setting.status.type`."""

    def parse(self, text: str) -> Value: ...


@dataclass(frozen=True, slots=True)
class Bool:
    """The spellings that Kubernetes' own flags take."""

    name: str = "bool"

    def parse(self, text: str) -> bool:
        text = text.strip()
        if text not in _TRUE | _FALSE:
            raise SettingError(f"{shown(text)} is no boolean; write true or false")
        return text in _TRUE


@dataclass(frozen=True, slots=True)
class Text:
    """Any one line of text."""

    name: str = "text"
    blank: bool = True
    """Whether nothing at all is a value too."""

    def parse(self, text: str) -> str:
        text = text.strip()
        if not text.isprintable():
            raise SettingError(f"{shown(text)} has characters that cannot be printed; write one line of plain text")
        if not text and not self.blank:
            raise SettingError("the value is blank; write a text")
        return text


@dataclass(frozen=True, slots=True)
class Duration:
    """A span of time, in seconds once it is read."""

    name: str = "duration"

    def parse(self, text: str) -> float:
        text = text.strip()
        if text.startswith("-") and _DURATION.fullmatch(text[1:]):
            raise SettingError(f"{shown(text)} is negative; a duration is 0s or more")
        if not _DURATION.fullmatch(text):
            raise SettingError(f"{shown(text)} is no duration; write for example 90s, 5m or 1h30m")
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in _SPAN.findall(text))
        if seconds > LONGEST_DURATION:
            raise SettingError(f"{shown(text)} is too long; the longest duration is 366 days, 8784h")
        return seconds


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    options: tuple[str, ...]

    @property
    def name(self) -> str:
        return "one of: " + ", ".join(self.options)

    def parse(self, text: str) -> str:
        text = text.strip()
        if text not in self.options:
            raise SettingError(f"{shown(text)} is not allowed; write {' or '.join(self.options)}")
        return text


@dataclass(frozen=True, slots=True)
class TextList:
    """Texts separated by commas. Nothing written means no text, and an empty place between commas is none either."""

    name: str = "list"

    def parse(self, text: str) -> tuple[str, ...]:
        parts = (part.strip() for part in text.split(","))
        return tuple(part for part in parts if part)


def shown(text: str) -> str:
    """The text in quotes, shortened, on one line."""
    line = text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
    return f'"{line}"' if len(line) <= 60 else f'"{line[:57]}…"'
