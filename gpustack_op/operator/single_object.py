"""Keeps the one object of a kind that the operator wants exactly so.

Owns      that object; what it holds is the caller's to say.
Never     touches another object of the kind.
Woken by  the kind, and once at start, since an object that is missing sends no event.
Promises  a deleted or edited object is put back; a settled cluster sees no write.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

from gpustack_op.api.meta import KubeObject
from gpustack_op.runtime.apply import Writer
from gpustack_op.runtime.cache import Informer
from gpustack_op.runtime.controller import DONE, Request, Result

T = TypeVar("T", bound=KubeObject)


class SingleObjectReconciler(Generic[T]):
    name: ClassVar[str]
    ONLY: ClassVar[Request]
    """The object's key; any other is nothing of ours."""

    def __init__(self, informer: Informer[T], writer: Writer, wanted: Mapping[str, Any]) -> None:
        self.informer = informer
        self.writer = writer
        self.wanted = wanted

    async def reconcile(self, request: Request) -> Result:
        if request == self.ONLY:
            await self.keep()
        return DONE

    async def keep(self) -> T | None:
        """The object as it is now; None while an old one is still going, whose end wakes us again."""
        present = self.informer.get(self.ONLY.name)
        if present is not None and present.deleting:
            return None
        return await self.writer.converge(self.informer.resource, self.wanted, present) or present
