"""Cuts a stream of bytes into lines.

Guarantees   A line may be of any size and may arrive cut at any byte; it is joined once. What follows the last line
             break is never given out: it is a line only when it is whole.
Assumptions  The API server escapes line breaks inside an object.
Recovery     None needed.
"""

from __future__ import annotations


class LineSplitter:
    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes, without their breaks and without empty ones."""
        first, *others = chunk.split(b"\n")
        self._pieces.append(first)
        if not others:
            return []
        lines = [b"".join(self._pieces), *others[:-1]]
        self._pieces = [others[-1]]
        return [line for line in lines if line]
