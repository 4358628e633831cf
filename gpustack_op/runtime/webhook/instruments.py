"""Metrics of the webhook server, under controller-runtime's names so that existing dashboards work.

Guarantees   The series are bounded by the handlers: an unknown path adds none.
Assumptions  The `webhook` label is the path a handler is registered under.
Recovery     None needed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from gpustack_op.runtime.metrics import Metrics

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""From a pure decision to the timeout of a review."""


class Instruments:
    def __init__(self, metrics: Metrics) -> None:
        self.requests = metrics.counter(
            "controller_runtime_webhook_requests_total", "Reviews answered, by HTTP status.", ("webhook", "code")
        )
        self.latency = metrics.histogram(
            "controller_runtime_webhook_latency_seconds", "Time to answer a review.", ("webhook",), buckets=_SECONDS
        )
        self.in_flight = metrics.gauge(
            "controller_runtime_webhook_requests_in_flight", "Reviews being answered.", ("webhook",)
        )

    @contextmanager
    def measuring(self, path: str) -> Iterator[None]:
        started = time.perf_counter()
        with self.in_flight.labels(path).track_inprogress():
            yield
        self.latency.labels(path).observe(time.perf_counter() - started)

    def answered(self, path: str, code: int) -> None:
        self.requests.labels(path, str(code)).inc()
