"""Measures our own work: what is spent waiting for others does not count."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter


class Stopwatch:
    def __init__(self) -> None:
        self._began = perf_counter()
        self._outside = 0.0

    @contextmanager
    def outside(self) -> Iterator[None]:
        began = perf_counter()
        try:
            yield
        finally:
            self._outside += perf_counter() - began

    @property
    def seconds(self) -> float:
        return max(perf_counter() - self._began - self._outside, 0.0)
