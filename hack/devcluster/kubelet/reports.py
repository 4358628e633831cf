"""Writes Pods' statuses and removes Pods that have ended, however long the API server is away.

Guarantees   What was reported last is written in the end, states in between may be skipped. Nothing is written that
             says what is there already. A Pod that was replaced by one of its name is never written.
Recovery     A failed write is tried again; a Pod that is gone needs none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import msgspec

from devcluster.kubelet.pods import PODS, Json, Pod, timestamp
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.errors import NETWORK_ERRORS, ApiError, Conflict, NotFound
from gpustack_op.runtime.paths import object_path

STRATEGIC: Final = "application/strategic-merge-patch+json"

RETRY: Final = 0.5
"""Seconds."""


class Reports:
    """Of one Pod. `run` writes; the others never wait but `removed`."""

    def __init__(self, client: Client, pod: Pod, say: Callable[[str], None]) -> None:
        self._client = client
        self._say = say
        self._path = object_path(PODS, pod.name, pod.namespace)
        self._uid = pod.uid
        self._wanted: Json = {}
        self._written: Json = {}
        self._news = asyncio.Event()
        self.gone = False
        """Whether the object is no longer there."""

    @property
    def latest(self) -> Json:
        """What was reported last."""
        return self._wanted

    def report(self, status: Json) -> None:
        """Conditions that are new or have changed get the present time."""
        for condition in status.get("conditions", []):
            if "$patch" not in condition and condition.get("lastTransitionTime") is None:
                condition["lastTransitionTime"] = timestamp(time.time())
        self._wanted = status
        self._news.set()

    async def run(self) -> None:
        """Until the object is gone."""
        while not self.gone:
            await self._news.wait()
            self._news.clear()
            await self._write_latest()

    async def removed(self) -> None:
        """Ends a Pod whose end was asked for: its last status first, then the object. `run` must have ended."""
        await self._write_latest()
        await self._insist(self._delete)

    async def _write_latest(self) -> None:
        wanted = self._wanted
        if wanted != self._written:
            await self._insist(partial(self._patch, wanted))
            self._written = wanted

    async def _insist(self, write: Callable[[], Awaitable[object]]) -> None:
        failing = False
        while not self.gone:
            try:
                await write()
                return
            except (NotFound, Conflict):
                self.gone = True
            except (ApiError, *NETWORK_ERRORS) as error:
                if not failing:
                    self._say(f"{self._path}: {error}; trying again")
                failing = True
                await asyncio.sleep(RETRY)

    async def _patch(self, status: Json) -> None:
        body = {"metadata": {"uid": self._uid}, "status": status}
        encoded = msgspec.json.encode(body)
        await self._client.raw("PATCH", f"{self._path}/status", body=encoded, content_type=STRATEGIC)

    async def _delete(self) -> None:
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": self._uid},
        }
        await self._client.raw("DELETE", self._path, body=msgspec.json.encode(options))
