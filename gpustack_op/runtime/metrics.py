"""The instruments of one program, on a registry of their own.

Guarantees   Asking twice for an instrument of the same name returns the same one, and two `Metrics` know nothing of
             each other: a manager can be built twice in one process. Names are those of client-go and
             controller-runtime wherever these have one, so that existing dashboards and alerts work.
Assumptions  Label values come from a bounded set (controllers, kinds, verbs, codes), never from object names. Whoever
             makes a series per object removes it with the object (`remove`).
Recovery     A scrape renders what there is; a failing gauge function costs its own series only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

Instrument = TypeVar("Instrument", Counter, Gauge, Histogram)

SHORT_SECONDS = (1e-6, 1e-5, 1e-4, 1e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""Buckets for waits and work that reach from microseconds to a minute."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Makes instruments and renders them."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # `_created` doubles a scrape, nobody reads it
        self.registry = registry or CollectorRegistry(auto_describe=True)
        self._instruments: dict[str, Counter | Gauge | Histogram] = {}
        ProcessCollector(registry=self.registry)

    def counter(self, name: str, documentation: str, labels: Sequence[str] = ()) -> Counter:
        return self._instrument(name, lambda: Counter(name, documentation, labels, registry=self.registry))

    def gauge(self, name: str, documentation: str, labels: Sequence[str] = ()) -> Gauge:
        return self._instrument(name, lambda: Gauge(name, documentation, labels, registry=self.registry))

    def histogram(
        self, name: str, documentation: str, labels: Sequence[str] = (), *, buckets: Sequence[float] = SHORT_SECONDS
    ) -> Histogram:
        return self._instrument(
            name, lambda: Histogram(name, documentation, labels, registry=self.registry, buckets=buckets)
        )

    def rest_client_requests(self) -> Counter:
        """Requests to the API server by code (an HTTP status, or `error` without an answer), method and host."""
        return self.counter("rest_client_requests_total", "Number of HTTP requests.", ("code", "method", "host"))

    def render(self) -> bytes:
        return generate_latest(self.registry)

    def value(self, name: str, /, **labels: str) -> float | None:
        """What a sample reads now; None while it has no such series. For tests and for health checks."""
        return self.registry.get_sample_value(name, labels)

    def _instrument(self, name: str, make: Callable[[], Instrument]) -> Instrument:
        known = self._instruments.get(name)
        if known is None:
            known = self._instruments[name] = make()
        return cast(Instrument, known)
