"""The two clocks, and how Kubernetes writes a moment.

Guarantees   Whatever waits or measures in the framework uses `elapsed`, which never jumps. The wall clock only stamps
             what people and other programs read; no decision hangs on it. `micro_time` always writes six fractional
             digits in UTC: the API server refuses any other form of a Lease's or Event's times.
Assumptions  A running event loop. Tests run in a loop whose clock they move, and so need no other seam.
Recovery     `parse_time` accepts 0 to 9 fractional digits, `Z` or an offset; anything else is None, never an error.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from datetime import UTC, datetime

WallClock = Callable[[], datetime]

_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def elapsed() -> float:
    """Seconds on the event loop's own monotonic clock; only differences mean something."""
    return asyncio.get_running_loop().time()


def wall_clock() -> datetime:
    return datetime.now(UTC)


def micro_time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str | None) -> datetime | None:
    match = _MOMENT.fullmatch(text or "")
    if match is None:
        return None
    seconds, fraction, offset = match.groups()
    micros = (fraction or "").ljust(6, "0")[:6]
    zone = "+00:00" if offset in ("Z", "z") else offset
    try:
        return datetime.fromisoformat(f"{seconds}.{micros}{zone}").astimezone(UTC)
    except (ValueError, OverflowError):
        return None
