"""What wakes a controller: from a change of an object to the keys it concerns.

Guarantees   The keys of the old and of the new state are woken, so that whoever lost a reference hears of it too.
             What comes from an initial list or a relist runs at low priority, behind live events. A predicate or
             mapping that raises costs the keys of that one change, is logged once until it works again, and stops
             neither the informer nor other watches.
Assumptions  Predicates and mappings are quick, pure, and ask only what is in the change or in caches.
Recovery     The next change of the object, or of any other that maps to the key, wakes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from gpustack_op.api.meta import KubeObject, Resource
from gpustack_op.runtime.change import Change
from gpustack_op.runtime.logging import logger
from gpustack_op.runtime.reconciler import Request
from gpustack_op.runtime.workqueue import LIVE, LOW

T = TypeVar("T", bound=KubeObject)
Wake = Callable[[Request, int], None]

log = logger("watches")


class Source(Protocol[T]):
    """The part of an informer that a watch needs."""

    @property
    def resource(self) -> Resource[Any]: ...
    @property
    def synced(self) -> bool: ...
    @property
    def missing(self) -> bool: ...
    async def wait_synced(self) -> None: ...
    def add_handler(self, handler: Callable[[Change[T]], None]) -> None: ...


def always(_change: Change[Any]) -> bool:
    """The predicate that lets every change through."""
    return True


def spec_changed(change: Change[Any]) -> bool:
    """Lets through what appears, goes, starts to go, or has a new generation; not changes of status or metadata."""
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    return bool(old.metadata.generation != new.metadata.generation or old.deleting != new.deleting)


class Watch(Generic[T]):
    """One informer and the way from its objects to keys. Made by `primary`, `owned` and `mapped`.

    required  default True: the controller starts only once the informer has synced, and so not while its kind is not
              served. False is for a reconciler that knows what to say about a kind that is missing. Danger: it may run
              before the informer's first list, and must not take that for absence.
    """

    def __init__(
        self,
        informer: Source[T],
        to: Callable[[T], Iterable[Request]],
        predicate: Callable[[Change[T]], bool],
        *,
        required: bool = True,
    ) -> None:
        self.informer = informer
        self.required = required
        self._to = to
        self._predicate = predicate
        self._failing = False

    def subscribe(self, wake: Wake) -> None:
        self.informer.add_handler(lambda change: self._changed(change, wake))

    def _changed(self, change: Change[T], wake: Wake) -> None:
        try:
            keys = self._keys(change)
        except Exception:
            if not self._failing:
                log.exception("watch.failing", resource=str(self.informer.resource))
            self._failing = True
            return
        if self._failing:
            self._failing = False
            log.info("watch.recovered", resource=str(self.informer.resource))
        for key in keys:
            wake(key, LOW if change.initial else LIVE)

    def _keys(self, change: Change[T]) -> Iterable[Request]:
        if not self._predicate(change):
            return ()
        states = [state for state in (change.old, change.new) if state is not None]
        return dict.fromkeys(key for state in states for key in self._to(state))


def primary(informer: Source[T], *, predicate: Callable[[Change[T]], bool] = always, required: bool = True) -> Watch[T]:
    """Wakes the object itself."""
    return Watch(informer, lambda changed: (Request(changed.name, changed.namespace),), predicate, required=required)


def owned(informer: Source[T], owner: Resource[Any], *, predicate: Callable[[Change[T]], bool] = always) -> Watch[T]:
    """Wakes the controlling owner, if it is of the kind `owner` (in whatever version)."""

    def owners(changed: T) -> Iterable[Request]:
        namespace = changed.namespace if owner.namespaced else ""
        for reference in changed.metadata.owner_references or ():
            group = reference.api_version.rpartition("/")[0]
            if reference.controller and reference.kind == owner.kind and group == owner.group:
                yield Request(reference.name, namespace)

    return Watch(informer, owners, predicate)


def mapped(
    informer: Source[T],
    to: Callable[[T], Iterable[Request]],
    *,
    predicate: Callable[[Change[T]], bool] = always,
    required: bool = True,
) -> Watch[T]:
    """Wakes whatever `to` says, for the old and for the new state."""
    return Watch(informer, to, predicate, required=required)
