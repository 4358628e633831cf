"""Sets and lifts our finalizer, and nobody else's.

Guarantees   Only our entry is added or removed. It is removed by its place in the list only together with a test that
             it still stands there, so that a list which changed meanwhile loses no other's entry. An object of the
             same name but another UID is never touched.
Assumptions  One process at a time cares for one finalizer; others may add and remove theirs at any moment.
Recovery     409 and 422 mean that the list has changed: it is read again and the patch made anew, a few times. 404
             means that the object is gone, which is what lifting a finalizer is for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from gpustack_op.api.meta import KubeObject, Resource
from gpustack_op.runtime.errors import Conflict, Invalid, NotFound
from gpustack_op.runtime.reconciler import TryAgainError

T = TypeVar("T", bound=KubeObject)
Patch = list[dict[str, Any]]

ATTEMPTS = 5
"""How often a list that keeps changing is read again before the controller's back-off takes over."""


class Connection(Protocol):
    """The part of a client that this needs."""

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T: ...
    async def json_patch(
        self, resource: Resource[T], name: str, patch: Sequence[Mapping[str, Any]], *, namespace: str = ""
    ) -> T: ...


async def add_finalizer(client: Connection, resource: Resource[T], present: T, finalizer: str) -> T | None:
    """The object with our finalizer; None if it is gone, or going, when none can be added any more."""
    return await _change(client, resource, present, finalizer, wanted=True)


async def remove_finalizer(client: Connection, resource: Resource[T], present: T, finalizer: str) -> T | None:
    """The object without our finalizer; None if it is gone."""
    return await _change(client, resource, present, finalizer, wanted=False)


async def _change(client: Connection, resource: Resource[T], present: T, finalizer: str, *, wanted: bool) -> T | None:
    uid = present.uid
    for _ in range(ATTEMPTS):
        if (finalizer in (present.metadata.finalizers or ())) == wanted:
            return present
        if wanted and present.deleting:
            return None
        patch = _adding(present, finalizer) if wanted else _removing(present, finalizer)
        try:
            return await client.json_patch(resource, present.name, patch, namespace=present.namespace)
        except NotFound:
            return None
        except (Conflict, Invalid):
            again = await _read(client, resource, present)
        if again is None or again.uid != uid:
            return None
        present = again
    raise TryAgainError(f"{resource.kind} {present.name}: its finalizers keep changing")


def _adding(present: KubeObject, finalizer: str) -> Patch:
    others = list(present.metadata.finalizers or ())
    if others:
        return [
            _same_object(present),
            {"op": "test", "path": "/metadata/finalizers", "value": others},
            {"op": "add", "path": "/metadata/finalizers/-", "value": finalizer},
        ]
    # Nothing to test against: only the version tells whether somebody has added an entry meanwhile.
    return [
        _same_object(present),
        {"op": "test", "path": "/metadata/resourceVersion", "value": present.metadata.resource_version},
        {"op": "add", "path": "/metadata/finalizers", "value": [finalizer]},
    ]


def _removing(present: KubeObject, finalizer: str) -> Patch:
    place = f"/metadata/finalizers/{(present.metadata.finalizers or ()).index(finalizer)}"
    return [
        _same_object(present),
        {"op": "test", "path": place, "value": finalizer},
        {"op": "remove", "path": place},
    ]


async def _read(client: Connection, resource: Resource[T], present: T) -> T | None:
    try:
        return await client.get(resource, present.name, present.namespace)
    except NotFound:
        return None


def _same_object(present: KubeObject) -> dict[str, Any]:
    return {"op": "test", "path": "/metadata/uid", "value": present.uid}
