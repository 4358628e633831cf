"""What handlers are told, and how objects are named inside a cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from gpustack_op.api.meta import KubeObject

T = TypeVar("T", bound=KubeObject)

Key = tuple[str, str]
"""Namespace (empty for cluster-scoped objects) and name."""


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """An object that appeared (`old` is None), changed, or went (`new` is None, `old` the last known state)."""

    old: T | None
    new: T | None
    initial: bool = False
    """Whether it was found by a list, at the start or after a gap, and not told by the watch."""

    @property
    def object(self) -> T:
        """The new state, or the last known one."""
        known = self.new if self.new is not None else self.old
        if known is None:
            raise ValueError("a change of nothing")
        return known


Handler = Callable[[Change[T]], None]


def key_of(obj: KubeObject) -> Key:
    return obj.metadata.namespace, obj.metadata.name
