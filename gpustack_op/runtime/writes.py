"""What the client tells its observers about a write of ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from gpustack_op.api.meta import KubeObject, Resource
from gpustack_op.runtime.paths import object_path

T = TypeVar("T", bound=KubeObject)


class Verb(Enum):
    CREATE = "create"
    UPDATE = "update"
    PATCH = "patch"
    """A patch or an apply, which may create and may change nothing."""

    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Write(Generic[T]):
    verb: Verb
    resource: Resource[T]
    name: str
    namespace: str = ""
    subresource: str = ""
    uid: str = ""
    """Precondition of a delete."""

    @property
    def path(self) -> str:
        return object_path(self.resource, self.name, self.namespace, self.subresource)

    @property
    def answers_with_object(self) -> bool:
        """Whether a successful answer holds the whole object; other subresources answer with kinds of their own."""
        return self.subresource in ("", "status")


WriteObserver = Callable[[Write[Any]], Callable[[bytes], None]]
"""Called before a write is sent; what it returns is called with the body of a successful answer."""
