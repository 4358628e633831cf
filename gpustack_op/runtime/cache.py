"""All the informers of one program.

Guarantees   One informer, one watch and one copy of the objects for each resource and selector, however many ask for
             it. Writes through the client are visible in them before the writer goes on.
Assumptions  Runs in one event loop. What is handed out is frozen and shared; nobody changes it.
Recovery     See `reflector` and `informer`. When versions go back, by a restore of the server's store, every informer
             lists anew; the old state is served until the new is whole.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gpustack_op.api.meta import KubeObject, Resource
from gpustack_op.runtime import followed_writes
from gpustack_op.runtime.change import Change
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.decode import Codec
from gpustack_op.runtime.informer import Informer
from gpustack_op.runtime.lean import lean_codec
from gpustack_op.runtime.logging import logger
from gpustack_op.runtime.reflector import DEFAULT_TIMING, Reflector, Timing
from gpustack_op.runtime.selector import EVERYTHING, Selector
from gpustack_op.runtime.writes import Write

__all__ = ["EVERYTHING", "Caches", "Change", "Informer", "Selector"]

T = TypeVar("T", bound=KubeObject)

log = logger("cache")


def freeze_heap() -> None:
    """Takes what the first lists left behind out of the garbage collector's sight: it is there to stay."""
    gc.collect()
    gc.freeze()


@dataclass(slots=True)
class _Shared:
    informer: Informer[Any]
    codec: Codec[Any]
    reflector: Reflector[Any]
    references: int = 0
    task: asyncio.Task[None] | None = field(default=None)


class Caches:
    def __init__(
        self,
        client: Client,
        *,
        timing: Timing = DEFAULT_TIMING,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        freeze: Callable[[], None] = freeze_heap,
    ) -> None:
        """`freeze` is called once, when everything has synced for the first time."""
        self._client = client
        self._timing = timing
        self._sleep = sleep
        self._freeze: Callable[[], None] | None = freeze
        self._shared: dict[tuple[Resource[Any], Selector], _Shared] = {}
        self._running = False
        self._ended: Callable[[asyncio.Task[None]], None] | None = None
        self._settled = asyncio.Event()
        client.on_write(self._writing)

    def informer(self, resource: Resource[T], selector: Selector = EVERYTHING) -> Informer[T]:
        """Starts watching at once when the caches run, else with them. Each call counts until its `release`."""
        shared = self._shared.get((resource, selector)) or self._new(resource, selector)
        shared.references += 1
        return shared.informer

    def informers(self) -> list[Informer[Any]]:
        return [shared.informer for shared in self._shared.values()]

    def start(self, ended: Callable[[asyncio.Task[None]], None] | None = None) -> None:
        """`ended` is told of every mirror whose task ends: one that died would grow stale without a word."""
        self._running = True
        self._ended = ended
        for shared in self._shared.values():
            self._launch(shared)
        self._progressed()

    async def stop(self) -> None:
        self._running = False
        tasks = [shared.task for shared in self._shared.values() if shared.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for shared in self._shared.values():
            shared.task = None

    async def run(self) -> None:
        """Until cancelled."""
        self.start()
        try:
            await asyncio.Event().wait()
        finally:
            await self.stop()

    async def wait_synced(self) -> None:
        """Until every kind that the server serves has synced."""
        await self._settled.wait()

    def unsynced(self) -> list[str]:
        """What has yet to sync, kinds that are not served excepted."""
        return [str(one) for one in self.informers() if not one.synced and not one.missing]

    def missing(self) -> list[Resource[Any]]:
        """The kinds that the server does not serve."""
        return list(dict.fromkeys(one.resource for one in self.informers() if one.missing))

    def relist(self) -> None:
        """Every informer lists anew, since versions went back."""
        log.warning("cache.versions_went_back", kinds=[str(one) for one in self.informers()])
        for shared in self._shared.values():
            shared.informer.forget_versions()
            shared.reflector.restart()

    def _new(self, resource: Resource[T], selector: Selector) -> _Shared:
        key = (resource, selector)
        informer = Informer(resource, selector, released=lambda: self._release(key), progressed=self._progressed)
        codec = lean_codec(resource)
        reflector = Reflector(
            self._client,
            resource,
            selector,
            codec,
            informer,
            went_back=self.relist,
            timing=self._timing,
            sleep=self._sleep,
        )
        shared = self._shared[key] = _Shared(informer, codec, reflector)
        self._settled.clear()
        if self._running:
            self._launch(shared)
        return shared

    def _launch(self, shared: _Shared) -> None:
        if shared.task is None:
            shared.task = asyncio.create_task(shared.reflector.run(), name=f"reflector {shared.informer}")
            if self._ended is not None:
                shared.task.add_done_callback(self._ended)

    def _release(self, key: tuple[Resource[Any], Selector]) -> None:
        shared = self._shared.get(key)
        if shared is None:
            return
        shared.references -= 1
        if shared.references == 0:
            del self._shared[key]
            if shared.task is not None:
                shared.task.cancel()
            self._progressed()

    def _progressed(self) -> None:
        if not self._running or self.unsynced():
            return
        self._settled.set()
        # Frozen only with something in it: an informer may still be asked for.
        if self._freeze is not None and self._shared:
            freeze, self._freeze = self._freeze, None
            freeze()

    def _writing(self, write: Write[Any]) -> Callable[[bytes], None]:
        followed = followed_writes.follow(write, self._of(write)) if write.answers_with_object else []
        return lambda body: followed_writes.answered(write, followed, body, self.relist)

    def _of(self, write: Write[Any]) -> Iterator[tuple[Informer[Any], Codec[Any]]]:
        """The informers of the written kind, whatever they decode it into."""
        place = (write.resource.group, write.resource.version, write.resource.plural)
        for shared in self._shared.values():
            resource = shared.informer.resource
            if (resource.group, resource.version, resource.plural) == place:
                yield shared.informer, shared.codec
