"""What a controller measures, under controller-runtime's names.

Guarantees   Every series exists from the start with value 0, so that rates and alerts work from the first scrape;
             label children are bound once.
Assumptions  One controller a name and registry.
Recovery     None needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpustack_op.runtime.metrics import Metrics

LABELS = ("controller",)


class ControllerInstruments:
    """Outcomes, errors, time and workers of one controller."""

    def __init__(self, metrics: Metrics, name: str, workers: int, *, active: Callable[[], int]) -> None:
        def counter(metric: str, documentation: str) -> Any:
            return metrics.counter(f"controller_runtime_{metric}", documentation, LABELS).labels(controller=name)

        def gauge(metric: str, documentation: str) -> Any:
            return metrics.gauge(f"controller_runtime_{metric}", documentation, LABELS).labels(controller=name)

        total = metrics.counter(
            "controller_runtime_reconcile_total", "Reconciles by outcome.", ("controller", "result")
        )
        self.success = total.labels(controller=name, result="success")
        self.error = total.labels(controller=name, result="error")
        self.requeue = total.labels(controller=name, result="requeue")
        self.requeue_after = total.labels(controller=name, result="requeue_after")
        self.errors = counter("reconcile_errors_total", "Reconciles that failed.")
        self.terminal_errors = counter("terminal_reconcile_errors_total", "Failures that no retry can mend.")
        self.panics = counter("reconcile_panics_total", "Failures that are defects of the program.")
        self.timeouts = counter("reconcile_timeouts_total", "Reconciles cut off at their time limit.")
        gauge("active_workers", "Workers that reconcile at present.").set_function(active)
        gauge("max_concurrent_reconciles", "Workers of the controller.").set(workers)
        self.time = metrics.histogram(
            "controller_runtime_reconcile_time_seconds", "How long reconciles take.", LABELS
        ).labels(controller=name)
