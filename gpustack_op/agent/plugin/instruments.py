"""What the device plugin counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gpustack_op.agent.plugin.health import Standing
from gpustack_op.runtime.metrics import Metrics
from gpustack_op.scheduling.credits import CARD
from gpustack_op.scheduling.manufacturers import Family


class Instruments:
    def __init__(self, metrics: Metrics) -> None:
        self._cards = metrics.gauge(
            "gpustack_agent_cards",
            "Cards by what they are used for and how they are.",
            ("manufacturer", "mode", "health"),
        )
        self._units = metrics.gauge(
            "gpustack_agent_ledger_units", "Units of the node's cards in use, of 1600000 a card.", ("manufacturer",)
        )
        self._capacity = metrics.gauge(
            "gpustack_agent_ledger_capacity_units", "Units that the node's cards have.", ("manufacturer",)
        )
        self._allocations = metrics.counter(
            "gpustack_agent_allocations_total", "Calls of Allocate by result.", ("manufacturer", "mode", "result")
        )
        self._latency = metrics.histogram(
            "gpustack_agent_allocate_seconds", "Allocate, without the waits for API server and kubelet.", ("mode",)
        )
        self._drift = metrics.gauge(
            "gpustack_agent_ledger_drift",
            "What disagrees at the last look: records with the kubelet, records with the inventory.",
            ("with",),
        )
        self._registered = metrics.gauge(
            "gpustack_agent_registered", "1 while the kubelet listens to the list of this resource.", ("resource",)
        )
        self._seen: set[tuple[str, str, str]] = set()

    def allocated(self, manufacturer: str, family: Family, result: str, seconds: float) -> None:
        self._allocations.labels(manufacturer, family.name.lower(), result).inc()
        self._latency.labels(family.name.lower()).observe(seconds)

    def registered(self, resource: str, is_registered: bool) -> None:
        self._registered.labels(resource).set(is_registered)

    def drift(self, *, kubelet: int, inventory: int) -> None:
        self._drift.labels("kubelet").set(kubelet)
        self._drift.labels("inventory").set(inventory)

    def stands(self, standing: Standing) -> None:
        counts: Counter[tuple[str, str, str]] = Counter()
        used: Counter[str] = Counter()
        capacity: Counter[str] = Counter()
        rows = standing.ledger.rows
        for group in standing.groups:
            for card in group.accelerators or ():
                row, health = rows[card.id], "sick" if card.status.unhealthy else "healthy"
                counts[group.manufacturer, Family(row.mode).name.lower(), health] += 1
                used[group.manufacturer] += CARD - row.remaining
                capacity[group.manufacturer] += CARD
        self._set_cards(counts)
        for manufacturer, units in capacity.items():
            self._units.labels(manufacturer).set(used[manufacturer])
            self._capacity.labels(manufacturer).set(units)

    def _set_cards(self, counts: Counter[tuple[str, str, str]]) -> None:
        gone: Iterable[tuple[str, str, str]] = self._seen - set(counts)
        for key in gone:
            self._cards.remove(*key)
        for key, number in counts.items():
            self._cards.labels(*key).set(number)
        self._seen = set(counts)
