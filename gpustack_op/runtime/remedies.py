"""What a watch that failed calls for.

Guarantees   Every error has a remedy, those that nobody thought of included: asking again.
Assumptions  A watch that was opened and then said nothing at all, not even a bookmark, may have been asked for a
             version that the server has yet to reach after a restore; then it would stay silent for ever.
Recovery     This is where it is decided; `Reflector` carries it out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gpustack_op.runtime.errors import BadRequest, Gone, Invalid, NotFound, ServerTimeout


class Remedy(Enum):
    RESUME = "ask again, from where it was"
    LIST = "that version is of no use, list"
    LIST_EVERYTHING = "no version is of use, list this and all other kinds"
    USE_PAGES = "the server does not stream lists, ask for pages"
    AWAIT_KIND = "the kind is not served, look for it now and then"


class VersionsWentBackError(Exception):
    """The server's store was restored from a backup."""


class StreamingRefusedError(Exception):
    """The server does not stream lists."""


class BrokeOffError(Exception):
    """A watch ended before it had lasted."""


@dataclass(slots=True)
class Progress:
    """How far a watch had come."""

    listing: bool = False
    """It still was about the initial list."""

    opened: bool = False
    heard: bool = False


def remedy(error: Exception, progress: Progress) -> Remedy:
    if isinstance(error, NotFound) and not error.names_object:
        return Remedy.AWAIT_KIND
    if _refuses_streaming(error, progress):
        return Remedy.USE_PAGES
    if isinstance(error, VersionsWentBackError):
        return Remedy.LIST_EVERYTHING
    return Remedy.LIST if _version_is_useless(error, progress) else Remedy.RESUME


def _refuses_streaming(error: Exception, progress: Progress) -> bool:
    return isinstance(error, StreamingRefusedError) or (progress.listing and isinstance(error, BadRequest | Invalid))


def _version_is_useless(error: Exception, progress: Progress) -> bool:
    too_new = isinstance(error, ServerTimeout) and error.version_too_large
    silent = isinstance(error, TimeoutError) and progress.opened and not progress.heard
    return isinstance(error, Gone) or too_new or silent
