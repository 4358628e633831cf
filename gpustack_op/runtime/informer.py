"""One collection in memory, with whoever listens to it.

Guarantees   Handlers see every object that stays, its latest state, in order for each object; one that is added late
             is told of what is there. `synced` is true only after they have seen the whole first list, and stays
             true: old state is served while a new list is fetched, then swapped at once, and what went meanwhile is
             told with its last known state. A successful write of ours is visible before its caller goes on, and
             nothing older than it is shown afterwards.
Assumptions  Everything runs in one event loop. Handlers are quick and do not wait; they hand keys to a queue.
Recovery     A handler that raises is logged and loses that one change; the others get it. An object that cannot be
             decoded is counted, logged once, and keeps its last readable state until it can be read or is gone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

from gpustack_op.api.meta import KubeObject, Resource
from gpustack_op.runtime.change import Change, Handler, Key, key_of
from gpustack_op.runtime.decode import Undecodable
from gpustack_op.runtime.listing import Listing
from gpustack_op.runtime.logging import logger
from gpustack_op.runtime.pending import Pending
from gpustack_op.runtime.selector import Selector
from gpustack_op.runtime.store import Store
from gpustack_op.runtime.versions import number

T = TypeVar("T", bound=KubeObject)

log = logger("informer")

BATCH: Final = 256
"""Changes that are handed out before other tasks get a turn."""


class Informer(Generic[T]):
    """Made by `Caches.informer`, and given back with `release`."""

    def __init__(
        self,
        resource: Resource[T],
        selector: Selector,
        *,
        released: Callable[[], None] = lambda: None,
        progressed: Callable[[], None] = lambda: None,
    ) -> None:
        self.resource = resource
        self.selector = selector
        self.undecodable_count = 0
        self._released = released
        self._progressed = progressed
        self._store: Store[T] = Store()
        self._handlers: list[Handler[T]] = []
        self._backlog: deque[Change[T]] = deque()
        self._pending = Pending()
        self._processed: int | None = None
        self._undecodable: set[Key] = set()
        self._synced = asyncio.Event()
        self._missing = False

    # --- for readers

    def get(self, name: str, namespace: str = "") -> T | None:
        return self._store.get((namespace, name))

    def all(self, namespace: str = "") -> list[T]:
        """Of every namespace when it is empty."""
        return self._store.all(namespace)

    def by_index(self, index: str, key: str) -> list[T]:
        return self._store.by_index(index, key)

    def add_index(self, index: str, keys: Callable[[T], Iterable[str]]) -> None:
        """Names must differ: readers who share the informer share its indexes."""
        self._store.add_index(index, keys)

    def has_index(self, index: str) -> bool:
        return self._store.has_index(index)

    def add_handler(self, handler: Handler[T]) -> None:
        self._handlers.append(handler)
        for obj in self._store.all():
            self._hand_to(handler, Change(None, obj, initial=True))

    def release(self) -> None:
        """The informer ends when everybody who asked for it has released it."""
        self._released()

    @property
    def synced(self) -> bool:
        return self._synced.is_set()

    @property
    def missing(self) -> bool:
        """Whether the API server does not serve the kind; what was known of it before is still shown."""
        return self._missing

    async def wait_synced(self) -> None:
        await self._synced.wait()

    def __len__(self) -> int:
        return len(self._store)

    def __str__(self) -> str:
        chosen = [part for part in (self.selector.namespace, self.selector.labels, self.selector.fields) if part]
        return f"{self.resource}[{' '.join(chosen)}]" if chosen else str(self.resource)

    # --- for the reflector

    async def replace(self, listing: Listing[T]) -> None:
        """Shows what a whole list told, at once, then hands out the differences."""
        version = number(listing.version)
        wanted = self._wanted(listing, version)
        before = {key_of(obj): obj for obj in self._store}
        self._store.swap(wanted)
        self._processed = version
        self._backlog.extend(_differences(before, wanted))
        self._undecodable.clear()
        for damaged in listing.undecodable.values():
            self._note(damaged)
        await self._hand_out()
        self._missing = False
        self._synced.set()
        self._progressed()

    def put(self, obj: T) -> None:
        key, version = key_of(obj), number(obj.metadata.resource_version)
        if not self._pending.outdates(key, obj.metadata.uid, version):
            self._undecodable.discard(key)
            self._show(obj)
        self._advance(version)

    def remove(self, obj: KubeObject) -> None:
        key, version = key_of(obj), number(obj.metadata.resource_version)
        if not self._pending.told_deleted(key, obj.metadata.uid, version):
            self._undecodable.discard(key)
            self._hide(key)
        self._advance(version)

    def bookmark(self, version: str) -> None:
        self._advance(number(version))

    def damaged(self, damaged: Undecodable) -> None:
        """An event whose object cannot be decoded."""
        if damaged.deleted and damaged.known.name:
            self.remove(damaged.known)
            return
        self._note(damaged)
        self._advance(number(damaged.known.metadata.resource_version))

    def mark_missing(self) -> None:
        self._missing = True
        self._progressed()

    def forget_versions(self) -> None:
        """Versions count from an earlier point again: none that is known can be compared any more."""
        self._pending.clear()
        self._processed = None

    # --- for our own writes

    @property
    def processed(self) -> int | None:
        """The version up to which the watch has told everything."""
        return self._processed

    def is_undecodable(self, key: Key) -> bool:
        return key in self._undecodable

    def wrote(self, obj: T, *, selected: bool) -> None:
        """A write was answered with this object, which the selector holds or not."""
        key, version = key_of(obj), number(obj.metadata.resource_version)
        if version is None or (self._processed is not None and version <= self._processed):
            return
        if self._pending.wrote(key, obj.metadata.uid, version):
            if selected:
                self._show(obj)
            else:
                self._hide(key)

    def deleted(self, key: Key, uid: str) -> None:
        """A deletion was answered, and the object with this UID is gone."""
        known = self._store.get(key)
        if known is not None and known.metadata.uid == uid:
            self._pending.deleted(key, uid)
            self._hide(key)

    # --- inside

    def _wanted(self, listing: Listing[T], version: int | None) -> dict[Key, T]:
        """The list, less what we deleted, with what we wrote since, and with what cannot be read as it was."""
        self._pending.keep_hidden({key: obj.metadata.uid for key, obj in listing.objects.items()})
        wanted = {k: obj for k, obj in listing.objects.items() if not self._pending.hides(k, obj.metadata.uid)}
        for key in (*self._pending.beyond(version), *listing.undecodable):
            known = self._store.get(key)
            if known is not None:
                wanted[key] = known
            elif key not in listing.undecodable:
                wanted.pop(key, None)
        return wanted

    def _show(self, obj: T) -> None:
        old = self._store.put(obj)
        if old is None or old.metadata.resource_version != obj.metadata.resource_version:
            self._publish(Change(old, obj))

    def _hide(self, key: Key) -> None:
        old = self._store.remove(key)
        if old is not None:
            self._publish(Change(old, None))

    def _advance(self, version: int | None) -> None:
        if version is None:
            return
        self._processed = version if self._processed is None else max(self._processed, version)
        for key in self._pending.overtaken(version):
            self._hide(key)

    def _note(self, damaged: Undecodable) -> None:
        key = key_of(damaged.known)
        self.undecodable_count += 1
        if key not in self._undecodable:
            self._undecodable.add(key)
            log.error("object.undecodable", kind=str(self), namespace=key[0], name=key[1], reason=damaged.reason)

    def _publish(self, change: Change[T]) -> None:
        """Keeps the order: what happens while a list is handed out comes after it."""
        if self._backlog:
            self._backlog.append(change)
        else:
            self._hand_to_all(change)

    async def _hand_out(self) -> None:
        """Interrupted, the rest waits for the next list, which follows every interruption."""
        count = 0
        while self._backlog:
            self._hand_to_all(self._backlog[0])
            self._backlog.popleft()
            count += 1
            if count % BATCH == 0:
                await asyncio.sleep(0)

    def _hand_to_all(self, change: Change[T]) -> None:
        for handler in self._handlers:
            self._hand_to(handler, change)

    def _hand_to(self, handler: Handler[T], change: Change[T]) -> None:
        try:
            handler(change)
        except Exception:
            obj = change.object
            log.exception("handler.failed", kind=str(self), namespace=obj.namespace, name=obj.name)


def _differences(before: dict[Key, T], after: dict[Key, T]) -> list[Change[T]]:
    changes: list[Change[T]] = []
    for key, new in after.items():
        old = before.pop(key, None)
        if old is None or old.metadata.resource_version != new.metadata.resource_version:
            changes.append(Change(old, new, initial=True))
    changes.extend(Change(old, None, initial=True) for old in before.values())
    return changes
