"""Writes what a Pod was given where it lasts: in the Pod.

Guarantees   The Pod is meant by its UID, so that a later Pod of that name is never written. What may pass (the server
             is busy, restarts, cannot be reached) is tried again for `patience` seconds; what remains is raised.
Assumptions  The status subresource: others' webhooks guard the main one, and are away at times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, Protocol

from gpustack_op.api.core import PODS, Pod
from gpustack_op.api.meta import Resource
from gpustack_op.runtime.clock import elapsed
from gpustack_op.runtime.errors import NETWORK_ERRORS, ApiError
from gpustack_op.scheduling import labels
from gpustack_op.scheduling.records import Record, written

PATIENCE: Final = 5.0
PAUSE: Final = 0.2
BUSY: Final = 429
BROKEN: Final = 500


class Connection(Protocol):
    async def merge_patch(
        self,
        resource: Resource[Pod],
        name: str,
        patch: Mapping[str, Any],
        *,
        namespace: str = "",
        subresource: str = "",
        field_manager: str = "",
    ) -> Pod: ...


def is_passing(error: Exception) -> bool:
    """Whether the write may have landed, or may land later."""
    return not isinstance(error, ApiError) or error.status == BUSY or error.status >= BROKEN


class RecordWriter:
    def __init__(
        self, client: Connection, field_manager: str, *, patience: float = PATIENCE, pause: float = PAUSE
    ) -> None:
        self._client = client
        self._field_manager = field_manager
        self._patience = patience
        self._pause = pause

    async def write(self, namespace: str, name: str, uid: str, record: Record, *, once: bool = False) -> None:
        """The whole record of the Pod; empty, the annotation goes. With `once` what fails is not tried again."""
        text = written(record) if record else None
        patch = {"metadata": {"uid": uid, "annotations": {labels.ALLOCATED: text}}}
        last = elapsed() + (0 if once else self._patience)
        while True:
            try:
                await self._client.merge_patch(
                    PODS, name, patch, namespace=namespace, subresource="status", field_manager=self._field_manager
                )
                return
            except (ApiError, *NETWORK_ERRORS) as error:
                if not is_passing(error) or elapsed() >= last:
                    raise
            await asyncio.sleep(self._pause)
