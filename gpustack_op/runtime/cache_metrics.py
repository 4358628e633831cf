"""How much the caches hold, as metrics.

Guarantees   Counted when they are read, so that nothing is spent while nobody looks. One series for each kind, all its
             selectors together.
Assumptions  Registered once: `registry.register(CacheCollector(caches))`.
Recovery     None needed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gpustack_op.runtime.cache import Caches, Informer
from gpustack_op.runtime.sizes import approximate_bytes


class CacheCollector(Collector):
    """`gpustack_cache_objects`, `_bytes`, `_synced` and `_undecodable_total`, by group and kind."""

    def __init__(self, caches: Caches) -> None:
        self._caches = caches

    def collect(self) -> Iterator[Metric]:
        labels = ("group", "kind")
        objects = GaugeMetricFamily("gpustack_cache_objects", "Objects in the cache.", labels=labels)
        size = GaugeMetricFamily("gpustack_cache_bytes", "About how many bytes they take.", labels=labels)
        synced = GaugeMetricFamily("gpustack_cache_synced", "Whether the first list is complete.", labels=labels)
        undecodable = CounterMetricFamily(
            "gpustack_cache_undecodable", "Objects that could not be decoded.", labels=labels
        )
        for kind, informers in self._by_kind().items():
            held = [informer.all() for informer in informers]
            objects.add_metric(kind, sum(len(some) for some in held))
            size.add_metric(kind, sum(approximate_bytes(some) for some in held))
            synced.add_metric(kind, float(all(informer.synced for informer in informers)))
            undecodable.add_metric(kind, sum(informer.undecodable_count for informer in informers))
        yield from (objects, size, synced, undecodable)

    def _by_kind(self) -> dict[tuple[str, str], list[Informer[Any]]]:
        kinds: dict[tuple[str, str], list[Informer[Any]]] = defaultdict(list)
        for informer in self._caches.informers():
            kinds[informer.resource.group, informer.resource.kind].append(informer)
        return kinds
