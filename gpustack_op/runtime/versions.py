"""Order of resource versions.

Guarantees   `number` gives an integer that grows with every change of a collection, or None where it cannot tell.
Assumptions  Versions of one collection come from one store, which counts upwards; only a restore from a backup counts
             back.
Recovery     A version that is no number is never compared: whoever asked falls back to what the watch delivers.
"""

from __future__ import annotations


def number(version: str) -> int | None:
    """The version as a number, None for what is empty or not decimal."""
    return int(version) if version.isascii() and version.isdigit() else None


def goes_back(version: str, since: str) -> bool:
    """Whether `version` is known to be older than `since`."""
    new, old = number(version), number(since)
    return new is not None and old is not None and new < old
