"""What a test does to the device side of a kubelet, whichever kubelet it is.

The same tests run against the simulated one here, and against the real one's device manager in `tests/controlplane`.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from devcluster.kubelet.folders import Folders
from devcluster.kubelet.pods import Pod, PodMeta
from devcluster.node_resources import Offer
from tests.runtime.kubelet.plugin import FakePlugin, devices
from tests.waiting import until

CARD = "example.com/card"


def pod(uid: str, *, init: Sequence[dict[str, Any]] = (), **limits: Mapping[str, int]) -> Pod:
    """Keyword arguments are containers with their limits."""
    return Pod(
        metadata=PodMeta(name=f"pod-{uid}", namespace="default", uid=uid),
        spec={
            "initContainers": list(init),
            "containers": [container(name, amounts) for name, amounts in limits.items()],
        },
    )


def container(name: str, limits: Mapping[str, int], **more: Any) -> dict[str, Any]:
    texts = {resource: str(amount) for resource, amount in limits.items()}
    return {"name": name, "resources": {"limits": texts, "requests": texts}, **more}


class FailedError(Exception):
    """The kubelet says no; the message is its own."""


class Bench(ABC):
    """`pods` are the active ones, by UID."""

    def __init__(self, root: Path) -> None:
        self.folders = Folders(root)
        self.folders.create()
        self.pods: dict[str, Pod] = {}
        self._plugins: list[FakePlugin] = []

    @abstractmethod
    async def start(self, *, running: Sequence[tuple[str, str]] = (), all_known: bool = True) -> None:
        """`running` are the containers, by Pod and name, that run at this moment."""

    @abstractmethod
    async def stop(self) -> None: ...

    @abstractmethod
    async def all_known(self) -> None:
        """All Pods of the node have been told."""

    @abstractmethod
    async def offer(self) -> Offer: ...

    @abstractmethod
    async def allocate(self, pod: Pod) -> None:
        """May raise FailedError."""

    @abstractmethod
    async def given(self, pod: Pod, container: str) -> Mapping[str, str]:
        """The variables for a start of the container; may raise FailedError."""

    @abstractmethod
    async def held(self, uid: str, container: str = "main") -> list[str]:
        """Ids, sorted."""

    def refuse_checkpoints(self, refused: bool = True) -> None:
        self.folders.refuse_checkpoints(refused)

    async def restart(self, *, running: Sequence[tuple[str, str]] = (), all_known: bool = True) -> None:
        await self.stop()
        await self.start(running=running, all_known=all_known)

    async def close(self) -> None:
        await self.stop()
        for plugin in self._plugins:
            await plugin.stop()

    async def plugin(self, *ids: str, resource: str = CARD, endpoint: str = "card.sock", **options: bool) -> FakePlugin:
        """One that is registered and has told these healthy devices."""
        made = await self.unregistered(resource=resource, endpoint=endpoint)
        for name, value in options.items():
            setattr(made.options, name, value)
        await made.register()
        if ids:
            await self.told(made, *ids)
        return made

    async def unregistered(self, *, resource: str = CARD, endpoint: str = "card.sock") -> FakePlugin:
        made = FakePlugin(self.folders.plugins, resource, endpoint=endpoint)
        self._plugins.append(made)
        await made.serve()
        return made

    async def told(self, plugin: FakePlugin, *ids: str) -> None:
        """Waits until a list of these healthy devices has arrived, and stands in the checkpoint."""
        plugin.offer(devices(*ids))
        await self.offers(len(set(ids)), resource=plugin.resource)

        async def written() -> bool:
            return set(self.checkpoint().get("RegisteredDevices", {}).get(plugin.resource) or ()) == set(ids)

        await until(written, every=0.01)

    def checkpoint(self) -> dict[str, Any]:
        """What the file says; empty without one."""
        try:
            data: dict[str, Any] = json.loads(self.folders.checkpoint.read_text())["Data"]
        except FileNotFoundError:
            return {}
        return data

    async def offers(self, allocatable: int, capacity: int | None = None, *, resource: str = CARD) -> None:
        """Waits until the node would say so."""

        async def so() -> bool:
            seen = await self.offer()
            wanted = allocatable if capacity is None else capacity
            return (seen.allocatable.get(resource), seen.capacity.get(resource)) == (allocatable, wanted)

        await until(so, every=0.01)

    async def admit(self, pod: Pod, *, stays: bool = False) -> str:
        """Empty, or why it is refused; then it is not active any more, unless it `stays`."""
        self.pods[pod.uid] = pod
        try:
            await asyncio.wait_for(self.allocate(pod), 20)
        except FailedError as error:
            if not stays:
                del self.pods[pod.uid]
            return str(error)
        return ""
