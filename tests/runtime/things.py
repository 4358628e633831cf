"""A kind of its own for these tests, and what listens to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from gpustack_op.api.meta import KubeObject, Resource
from gpustack_op.runtime.cache import Change


class ThingSpec(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    size: int = 0
    node_name: str = ""
    parts: tuple[str, ...] = ()


class Thing(KubeObject, frozen=True, gc=False, kw_only=True):
    spec: ThingSpec = ThingSpec()


THINGS = Resource("example.com", "v1", "things", "Thing", Thing, namespaced=True)
PATH = "/apis/example.com/v1/things"
IN_A = "/apis/example.com/v1/namespaces/a/things"


def thing(name: str, version: int, *, namespace: str = "a", uid: str = "", **more: Any) -> dict[str, Any]:
    """`more` is spec, but for labels, annotations, finalizers and the like, which are metadata."""
    metadata_keys = ("labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp", "generation")
    metadata = {key: more.pop(key) for key in metadata_keys if key in more}
    return {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
            **metadata,
        },
        "spec": more,
    }


class Heard:
    """A handler that remembers, and can be waited for."""

    def __init__(self) -> None:
        self.changes: list[Change[Thing]] = []
        self._changed = asyncio.Event()

    def __call__(self, change: Change[Thing]) -> None:
        self.changes.append(change)
        self._changed.set()

    @property
    def told(self) -> list[tuple[str | None, str | None]]:
        """Old and new state of each change, as `name@version`."""
        return [(_named(change.old), _named(change.new)) for change in self.changes]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until the condition holds; looked at after each change."""
        async with asyncio.timeout(10):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def count(self, changes: int) -> None:
        await self.until(lambda: len(self.changes) >= changes)


def _named(obj: Thing | None) -> str | None:
    return None if obj is None else f"{obj.name}@{obj.metadata.resource_version}"


class Naps:
    """A sleep that does not wait, and remembers for how long it was asked to."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)
        await asyncio.sleep(0)


GADGETS = Resource("example.com", "v1", "gadgets", "Gadget", Thing, namespaced=True)
GADGET_PATH = "/apis/example.com/v1/gadgets"


async def eventually(condition: Callable[[], bool]) -> None:
    """For what nobody announces."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


class LoopClock:
    """Moves the running loop's clock ahead, so that whatever waits for that time is due at once."""

    def __init__(self) -> None:
        self._ahead = 0.0
        loop = asyncio.get_running_loop()
        real = loop.time
        loop.time = lambda: real() + self._ahead  # type: ignore[method-assign]

    def jump(self, seconds: float) -> None:
        self._ahead += seconds
