"""Whoever watches the pools sees nothing happen.

Watched are InstanceTypes, ResourceFlavors and ClusterQueues, and of each what a user goes by: labels, spec, and a
type's phase and views. A watch that breaks, because the API server went, goes on from the last version it saw, so that
nothing in between is missed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from gpustack_op.runtime.client import Client
from gpustack_op.runtime.errors import NETWORK_ERRORS, ApiError, Gone
from gpustack_op.runtime.paths import collection_path
from tests.e2e.looking import CLUSTER_QUEUES, INSTANCE_TYPES, RESOURCE_FLAVORS

WATCHED: Final = (INSTANCE_TYPES, RESOURCE_FLAVORS, CLUSTER_QUEUES)
RECONNECT: Final = 0.1
"""Seconds between a watch's end and the next try."""

Object = dict[str, Any]


def essence(item: Object) -> Object:
    """What must not change. Of statuses only a type's, since a queue's is Kueue's own."""
    kept = {"labels": item["metadata"].get("labels"), "spec": item.get("spec")}
    if item["kind"] == "InstanceType":
        status = item.get("status", {})
        kept["status"] = {key: value for key, value in status.items() if key != "conditions"}
    return kept


class Steadiness:
    """`changes` tells each change that was seen; `events` counts all that the watches delivered."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[str, Object] = {}
        self._watching = asyncio.Condition()
        self._streams = 0
        self._changed = asyncio.Event()
        self.changes: list[str] = []
        self.events = 0

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[Steadiness]:
        """Watches for as long as the block lasts; at its end all streams have caught up with the server."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._follow(collection_path(kind))) for kind in WATCHED]
            await self._until_streaming()
            try:
                yield self
                await self._until_streaming()
                await self._compare_with_server()
            finally:
                for task in tasks:
                    task.cancel()

    async def change(self, *, within: float) -> None:
        """Returns at the first change, or when there was none for so many seconds."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), within)

    async def _until_streaming(self) -> None:
        async with self._watching:
            await asyncio.wait_for(self._watching.wait_for(lambda: self._streams == len(WATCHED)), 60)

    async def _follow(self, path: str) -> None:
        version = ""
        while True:
            try:
                version = await self._stream(path, version or await self._list(path))
            except Gone:
                version = ""
            except (ApiError, *NETWORK_ERRORS):
                await asyncio.sleep(RECONNECT)

    async def _list(self, path: str) -> str:
        answer = json.loads(await self._client.raw("GET", path))
        kind = answer["kind"].removesuffix("List")
        for item in answer["items"]:
            self._see({**item, "kind": kind})
        return str(answer["metadata"]["resourceVersion"])

    async def _stream(self, path: str, version: str) -> str:
        params = {"resourceVersion": version, "allowWatchBookmarks": "true"}
        async with self._client.watch(path, params, total=600, silence=600) as batches:
            await self._count_streams(+1)
            try:
                async for lines in batches:
                    for line in lines:
                        version = self._take(json.loads(line), version)
            except (ApiError, *NETWORK_ERRORS):
                pass  # the next stream goes on where this one was cut
            finally:
                await self._count_streams(-1)
        return version

    async def _count_streams(self, change: int) -> None:
        async with self._watching:
            self._streams += change
            self._watching.notify_all()

    def _take(self, event: Object, version: str) -> str:
        item = event["object"]
        if event["type"] == "ERROR":
            raise Gone(item.get("code", 410), item.get("reason", ""), item.get("message", ""))
        if event["type"] == "DELETED":
            self._tell(f"{item['kind']} {item['metadata']['name']} was deleted")
        elif event["type"] != "BOOKMARK":
            self.events += 1
            self._see(item)
        return str(item["metadata"]["resourceVersion"])

    def _see(self, item: Object) -> None:
        name, now = f"{item['kind']} {item['metadata']['name']}", essence(item)
        before = self._known.setdefault(name, now)
        if before != now:
            self._known[name] = now
            self._tell(f"{name} changed from {before} to {now}")

    def _tell(self, change: str) -> None:
        self.changes.append(change)
        self._changed.set()

    async def _compare_with_server(self) -> None:
        """What the streams may still owe at the end is seen by a last list; so is what a watch would hide."""
        there: set[str] = set()
        for kind in WATCHED:
            answer = json.loads(await self._client.raw("GET", collection_path(kind)))
            for item in answer["items"]:
                there.add(f"{kind.kind} {item['metadata']['name']}")
                self._see({**item, "kind": kind.kind})
        self.changes += [f"{name} is gone" for name in sorted(self._known.keys() - there)]
