"""What every Kubernetes object has in common, and how a kind is named.

Cached objects are narrow frozen structs decoded straight from the wire. Every field has a default, since the API
server omits what is empty and a bookmark carries next to nothing. `gc=False` is safe because the structs are frozen
and hold only values, tuples and maps of text: no cycle can arise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

EMPTY: Mapping[str, str] = {}


class OwnerReference(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """The metadata that controllers read. `annotations` hold only the keys that a reader named, see `Resource`."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: tuple[str, ...] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None


class KubeObject(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """Base of every cached kind. Subclasses declare just the fields that are read or written."""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """Empty for a cluster-scoped object."""
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def labels(self) -> Mapping[str, str]:
        return self.metadata.labels or EMPTY

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.metadata.annotations or EMPTY

    @property
    def deleting(self) -> bool:
        """Whether a deletion was requested; the object lives on until its finalizers are lifted."""
        return self.metadata.deletion_timestamp is not None

    def controlled_by(self, uid: str) -> bool:
        """Whether the controlling owner is the object with this UID."""
        return any(owner.controller and owner.uid == uid for owner in self.metadata.owner_references or ())


class PartialObject(KubeObject, frozen=True, gc=False, kw_only=True):
    """An object of which nobody reads more than the metadata."""


T_co = TypeVar("T_co", bound=KubeObject, covariant=True)


@dataclass(frozen=True, slots=True)
class Resource(Generic[T_co]):
    """One collection of the API: where it is served and what its objects are decoded into.

    `annotations` names the annotation keys (or, ending in `/`, key prefixes) kept in a cache; all others are dropped
    to save memory. `labels` does the same for labels; empty keeps them all.
    """

    group: str
    version: str
    plural: str
    kind: str
    model: type[T_co]
    namespaced: bool = False
    annotations: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """`plural.group`, as kubectl and a CustomResourceDefinition's name spell it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def __str__(self) -> str:
        return self.full_name
