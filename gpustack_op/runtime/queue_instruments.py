"""What a work queue measures, under client-go's names.

Guarantees   All label children are bound once, so that a key costs no look-up. Gauges are computed when scraped, from
             the keys then queued and in work.
Assumptions  One queue a name and registry. A scrape is rendered in the event loop that the queue runs in.
Recovery     None needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpustack_op.runtime.clock import elapsed
from gpustack_op.runtime.metrics import Metrics

LABELS = ("name", "controller")


class QueueInstruments:
    """Depth, adds, retries, waits and work of one queue. `working` says when each key in work was handed out."""

    def __init__(
        self, metrics: Metrics, name: str, *, depth: Callable[[], int], working: Callable[[], Mapping[Any, float]]
    ) -> None:
        def bound(instrument: Any) -> Any:
            return instrument.labels(name=name, controller=name)

        bound(metrics.gauge("workqueue_depth", "Current depth of the work queue.", LABELS)).set_function(depth)
        self.adds = bound(metrics.counter("workqueue_adds_total", "Adds handled by the work queue.", LABELS))
        self.retries = bound(metrics.counter("workqueue_retries_total", "Retries handled by the work queue.", LABELS))
        self.queue_duration = bound(
            metrics.histogram("workqueue_queue_duration_seconds", "How long a key waited to be handed out.", LABELS)
        )
        self.work_duration = bound(
            metrics.histogram("workqueue_work_duration_seconds", "How long the work on a key took.", LABELS)
        )
        bound(
            metrics.gauge("workqueue_unfinished_work_seconds", "Seconds of work in progress, summed over keys.", LABELS)
        ).set_function(lambda: sum(_ages(working())))
        bound(
            metrics.gauge(
                "workqueue_longest_running_processor_seconds", "Seconds that the oldest key has been in work.", LABELS
            )
        ).set_function(lambda: max(_ages(working()), default=0.0))


def _ages(working: Mapping[Any, float]) -> list[float]:
    return [elapsed() - started for started in working.values()]
