"""What the API server has written down about who wrote what."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from devcluster.paths import Layout

OURS: Final = "system:serviceaccount:gpustack-system:"
OPERATOR: Final = OURS + "gpustack-operator"

WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
LOOK_AGAIN: Final = 0.001
"""Seconds between two looks at the log: much shorter than the time between two writes."""


@dataclass(frozen=True, slots=True)
class Written:
    user: str
    verb: str
    what: str

    def __str__(self) -> str:
        return f"{self.user.removeprefix(OURS)} {self.verb} {self.what}"


class AuditLog:
    """The log from the moment this is made. Each look goes on where the last one ended."""

    def __init__(self, layout: Layout, *, user: str) -> None:
        """`user` is how the names of those who are looked for begin. Leases are nobody's interest."""
        self._file: Path = layout.audit_log
        self._user = user
        self._read = self._file.stat().st_size

    def look(self) -> list[Written]:
        """What has been written since the last look, refused writes included."""
        return list(self._entries())

    async def follow(self) -> AsyncIterator[Written]:
        """For ever."""
        while True:
            for written in self._entries():
                yield written
            await asyncio.sleep(LOOK_AGAIN)

    def _entries(self) -> Iterator[Written]:
        with self._file.open("rb") as log:
            log.seek(self._read)
            fresh = log.read()
        whole = fresh[: fresh.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            written = self._of_interest(line)
            if written is not None:
                yield written

    def _of_interest(self, line: bytes) -> Written | None:
        if self._user.encode() not in line:
            return None
        entry = json.loads(line)
        what = entry.get("objectRef", {})
        if entry["verb"] not in WRITES or not entry["user"]["username"].startswith(self._user):
            return None
        # Asking what one may do is a create in form only.
        if what.get("resource") in {"leases", "selfsubjectaccessreviews"}:
            return None
        parts = (what.get("resource"), what.get("subresource"), what.get("namespace"), what.get("name"))
        code = entry.get("responseStatus", {}).get("code", "")
        return Written(entry["user"]["username"], entry["verb"], f"{'/'.join(filter(None, parts))} {code}")
