"""The node's Pods, as the cache has them and, where that may lag, as the API server does.

Guarantees   A Pod that was read past the cache stays known until the cache shows it or has passed it, or a later
             reading does not show it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gpustack_op.api.core import PODS, Pod
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.selector import Selector
from gpustack_op.runtime.versions import number


class PodCache(Protocol):
    """An informer of the node's Pods."""

    @property
    def synced(self) -> bool: ...
    @property
    def processed(self) -> int | None: ...
    def all(self) -> list[Pod]: ...


class PodSource(Protocol):
    """Reads the node's Pods from the API server."""

    async def __call__(self) -> Sequence[Pod]: ...


def pods_of_node(client: Client, node: str) -> PodSource:
    async def read() -> Sequence[Pod]:
        return await client.list(PODS, selector=Selector(fields=f"spec.nodeName={node}"))

    return read


class PodBook:
    def __init__(self, cache: PodCache, source: PodSource) -> None:
        self._cache = cache
        self._source = source
        self._ahead: dict[str, Pod] = {}

    @property
    def ready(self) -> bool:
        return self._cache.synced

    def pods(self) -> list[Pod]:
        present = self._cache.all()
        if self._ahead:
            cached = {pod.uid for pod in present}
            self._ahead = {u: pod for u, pod in self._ahead.items() if u not in cached and not self._is_behind(pod)}
        return [*present, *self._ahead.values()]

    def _is_behind(self, pod: Pod) -> bool:
        """The cache has passed the version in which the Pod was read, and does not have it: it is gone."""
        version, processed = number(pod.metadata.resource_version), self._cache.processed
        return version is not None and processed is not None and version <= processed

    async def fresh(self) -> list[Pod]:
        """As they are now; an ApiError, or an error of the network, if they cannot be read."""
        read = list(await self._source())
        cached = {pod.uid for pod in self._cache.all()}
        self._ahead = {pod.uid: pod for pod in read if pod.uid not in cached}
        return read
