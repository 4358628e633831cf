"""The node's Pods, as the cache has them and, where that may lag, as the API server does.

Guarantees   A Pod that was read past the cache stays known until the cache shows it or a later reading does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gpustack_op.api.core import PODS, Pod
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.selector import Selector


class PodCache(Protocol):
    """An informer of the node's Pods."""

    @property
    def synced(self) -> bool: ...
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
        for pod in present:
            self._ahead.pop(pod.uid, None)
        return [*present, *self._ahead.values()]

    async def fresh(self) -> list[Pod]:
        """As they are now; an ApiError, or an error of the network, if they cannot be read."""
        read = list(await self._source())
        cached = {pod.uid for pod in self._cache.all()}
        self._ahead = {pod.uid: pod for pod in read if pod.uid not in cached}
        return read
