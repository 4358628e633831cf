"""Brings an object to the desired state, and writes only when it is not there yet.

Guarantees   A settled object is not written. An update goes through server-side apply under one field manager, so
             that fields of others stay. A field to be given up is stated as None. What still differs after the apply
             (keys of another manager in an exactly owned map, say) is put right by one merge patch that is bound to
             the version just seen. An object that exists but was not known is taken for ours only if it has our
             controlling owner or, where we set none, all our labels; another's is never touched.
Assumptions  One `Writer` and field manager for a reconciler, one reconciler for a kind's spec. `present` may be
             stale: the update carries its UID, so that a later object of that name is not written and a deleted one
             not made again.
Recovery     A create whose answer was lost is found again by `AlreadyExists`. Conflicts travel to the controller,
             which retries quietly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeVar

from gpustack_op.api.meta import KubeObject, Resource
from gpustack_op.runtime.comparison import Owned, UnknownFieldError, differs, remainder
from gpustack_op.runtime.errors import AlreadyExists, Invalid, NotFound
from gpustack_op.runtime.logging import logger
from gpustack_op.runtime.reconciler import TryAgainError

__all__ = [
    "BeingDeletedError",
    "NotOursError",
    "Owned",
    "UnknownFieldError",
    "Writer",
    "differs",
    "is_ours",
    "remainder",
]

T = TypeVar("T", bound=KubeObject)
Body = Mapping[str, Any]

WHOLE_STATUS = Owned(exact=("status.**",))
"""The status is one reconciler's alone, which states all of it every time."""

log = logger("apply")


class NotOursError(Exception):
    """An object of the desired name exists and belongs to somebody else. Say so where the author looks; no takeover."""

    def __init__(self, present: KubeObject, what: str) -> None:
        super().__init__(f"{what} exists and is not ours; delete or rename it")
        self.present = present


class BeingDeletedError(TryAgainError):
    """The old object of the desired name is still going; the new one is made when it has gone."""


class Connection(Protocol):
    """The part of a client that a writer needs."""

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T: ...
    async def create(self, resource: Resource[T], body: Body, *, namespace: str = "", field_manager: str = "") -> T: ...
    async def apply(
        self,
        resource: Resource[T],
        body: Body,
        *,
        namespace: str = "",
        subresource: str = "",
        field_manager: str,
        force: bool = True,
    ) -> T: ...
    async def merge_patch(
        self,
        resource: Resource[T],
        name: str,
        patch: Body,
        *,
        namespace: str = "",
        subresource: str = "",
        field_manager: str = "",
    ) -> T: ...
    async def delete(
        self,
        resource: Resource[T],
        name: str,
        namespace: str = "",
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str | None = None,
    ) -> None: ...


class Writer:
    """Writes for one reconciler.

    field_manager  names the reconciler in `managedFields`. Danger: changing it in a release leaves the old name as
                   co-owner of every field, which then can no longer be given up by leaving them out.
    """

    def __init__(self, client: Connection, field_manager: str) -> None:
        self._client = client
        self.field_manager = field_manager

    async def converge(
        self, resource: Resource[T], desired: Body, present: T | None, *, owned: Owned | None = None
    ) -> T | None:
        """Create or update; the new object, or None when nothing had to be written.

        `desired` holds metadata (name, and namespace where the kind has one) and what else we state.
        """
        owned = owned or Owned()
        _check_visible(resource, desired)
        if present is None:
            created = await self._create(resource, desired)
            if created is not None:
                return created
            present = await self._existing(resource, desired)
        if not differs(desired, present, owned):
            return None
        applied = await self._apply(resource, desired, present)
        return await self._finish(resource, desired, applied, owned)

    async def converge_status(
        self, resource: Resource[T], desired_status: Body, present: T, *, owned: Owned = WHOLE_STATUS
    ) -> T | None:
        """Bring the status to the desired one; None when nothing had to be written."""
        desired = {"metadata": {"name": present.name, "namespace": present.namespace}, "status": desired_status}
        if not differs(desired, present, owned):
            return None
        applied = await self._apply(resource, desired, present, subresource="status")
        return await self._finish(resource, desired, applied, owned, subresource="status")

    async def delete(self, resource: Resource[T], present: T, *, propagation: str | None = None) -> None:
        """Delete exactly the object that was seen, in the state it was seen in; done if it is gone already."""
        try:
            await self._client.delete(
                resource,
                present.name,
                present.namespace,
                uid=present.uid,
                resource_version=present.metadata.resource_version,
                propagation=propagation,
            )
        except NotFound:
            return

    async def _create(self, resource: Resource[T], desired: Body) -> T | None:
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **_without_nulls(desired)}
        namespace = _namespace(desired)
        try:
            return await self._client.create(resource, body, namespace=namespace, field_manager=self.field_manager)
        except AlreadyExists:
            return None

    async def _existing(self, resource: Resource[T], desired: Body) -> T:
        name, namespace = desired["metadata"]["name"], _namespace(desired)
        what = _what(resource, desired)
        try:
            present = await self._client.get(resource, name, namespace)
        except NotFound as error:
            raise TryAgainError(f"{what} was there and is gone") from error
        if not is_ours(desired, present):
            raise NotOursError(present, what)
        if present.deleting:
            raise BeingDeletedError(f"{what} is still being deleted")
        return present

    async def _apply(self, resource: Resource[T], desired: Body, present: T, *, subresource: str = "") -> T:
        metadata = {**desired["metadata"], "uid": present.uid}
        try:
            return await self._client.apply(
                resource,
                _without_nulls({**desired, "metadata": metadata}),
                namespace=present.namespace,
                subresource=subresource,
                field_manager=self.field_manager,
            )
        except Invalid as error:
            # How the server says that a later object has the name; were there none at all, it would say Conflict.
            if any(cause.get("field") == "metadata.uid" for cause in error.causes):
                raise TryAgainError(f"{_what(resource, desired)} is another object by now") from error
            raise

    async def _finish(
        self, resource: Resource[T], desired: Body, applied: T, owned: Owned, *, subresource: str = ""
    ) -> T:
        rest = remainder(desired, applied, owned)
        if not rest:
            return applied
        version = {"uid": applied.uid, "resourceVersion": applied.metadata.resource_version}
        patched = await self._client.merge_patch(
            resource,
            applied.name,
            {**rest, "metadata": {**rest.get("metadata", {}), **version}},
            namespace=applied.namespace,
            subresource=subresource,
            field_manager=self.field_manager,
        )
        if remaining := remainder(desired, patched, owned):
            log.warning("apply.not_kept", resource=str(resource), object=applied.name, fields=sorted(_paths(remaining)))
        return patched


def is_ours(desired: Body, present: KubeObject) -> bool:
    """Whether an object of the desired name is our making: by controlling owner or, if we set none, by labels."""
    metadata = desired["metadata"]
    owners = [owner["uid"] for owner in metadata.get("ownerReferences") or () if owner.get("controller")]
    if owners:
        return present.controlled_by(owners[0])
    labels = metadata.get("labels") or {}
    return bool(labels) and all(present.labels.get(key) == value for key, value in labels.items())


def _namespace(desired: Body) -> str:
    return str(desired["metadata"].get("namespace") or "")


def _what(resource: Resource[Any], desired: Body) -> str:
    name, namespace = desired["metadata"]["name"], _namespace(desired)
    return f'{resource.kind} "{f"{namespace}/{name}" if namespace else name}"'


def _check_visible(resource: Resource[Any], desired: Body) -> None:
    """What the cache drops can never compare equal: such a key would be written on every pass."""
    metadata = desired["metadata"]
    _check_kept(resource, "annotation", metadata.get("annotations") or {}, resource.annotations)
    if resource.labels:
        _check_kept(resource, "label", metadata.get("labels") or {}, resource.labels)


def _check_kept(resource: Resource[Any], what: str, keys: Iterable[str], kept: tuple[str, ...]) -> None:
    prefixes = tuple(keep for keep in kept if keep.endswith(("/", ".")))
    for key in keys:
        if key not in kept and not key.startswith(prefixes):
            raise UnknownFieldError(f"caches of {resource} drop the {what} {key}, so it cannot be compared")


def _without_nulls(value: Any) -> Any:
    """A desired None is a field we give up: server-side apply wants it left out."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_without_nulls(item) for item in value]
    return value


def _paths(patch: Mapping[str, Any], base: str = "") -> Iterable[str]:
    for key, value in patch.items():
        if isinstance(value, Mapping) and value:
            yield from _paths(value, f"{base}{key}.")
        else:
            yield f"{base}{key}"
