"""All Pods of one node: who comes, who is let in, who goes.

Guarantees   What happens to Pods is taken in one after the other, and a Pod that is being admitted holds up all that
             come after it. Those that come together are admitted in the order of their creation. At a start all Pods of
             the node come together and are admitted again, running ones included; nothing is given back before.
Assumptions  A Pod of the same name with another UID is another Pod.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Iterable, Iterator

from devcluster.containers.interface import State
from devcluster.kubelet.admission import Admission
from devcluster.kubelet.pods import TERMINAL, Pod
from devcluster.kubelet.reports import Reports
from devcluster.kubelet.worker import Surroundings, Worker
from gpustack_op.runtime.change import Change
from gpustack_op.runtime.client import Client


class Roster:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._workers: dict[str, Worker] = {}
        self._changes: asyncio.Queue[Change[Pod]] = asyncio.Queue()
        self._states: list[State] = []
        self._complete = False

    def changed(self, change: Change[Pod]) -> None:
        """A handler of changes; they are taken in by `run`."""
        self._changes.put_nowait(change)

    def active(self) -> list[Pod]:
        """Pods that may hold devices, the one that is being admitted among them."""
        return [worker.pod for worker in self._workers.values() if worker.active]

    def worker(self, namespace: str, name: str) -> Worker | None:
        """Of the Pod that bears the name now."""
        bearing = [each for each in self._workers.values() if (each.pod.namespace, each.pod.name) == (namespace, name)]
        return bearing[-1] if bearing else None

    def wake(self, uid: str) -> None:
        if uid in self._workers:
            self._workers[uid].wake()

    def observe(self, states: list[State]) -> list[str]:
        """Hands out what the runtime tells; gives the containers that belong to no Pod."""
        self._states = states
        for uid, worker in self._workers.items():
            worker.observe(state for state in states if state.pod == uid)
        return [state.id for state in states if self._complete and state.pod not in self._workers]

    async def run(
        self, admission: Admission, around: Surroundings, tasks: asyncio.TaskGroup, *, all_known: Callable[[], None]
    ) -> None:
        """Until cancelled, once all Pods that are there have been told. `all_known` says that they are judged."""
        while True:
            batch = list(self._told())
            if self._complete and not batch:
                batch = [await self._changes.get()]
            for change in _in_order(batch):
                await self._take_in(change, admission, around, tasks)
            if not self._complete:
                self._complete = True
                all_known()

    def _told(self) -> Iterator[Change[Pod]]:
        while not self._changes.empty():
            yield self._changes.get_nowait()

    async def _take_in(
        self, change: Change[Pod], admission: Admission, around: Surroundings, tasks: asyncio.TaskGroup
    ) -> None:
        old, new = change.old, change.new
        if old is not None and (new is None or new.uid != old.uid) and old.uid in self._workers:
            self._workers[old.uid].vanished()
        if new is None:
            return
        if new.uid in self._workers:
            self._workers[new.uid].update(new)
        else:
            await self._add(new, admission, around, tasks)

    async def _add(self, pod: Pod, admission: Admission, around: Surroundings, tasks: asyncio.TaskGroup) -> None:
        worker = Worker(pod, around, Reports(self._client, pod, around.say), pod_address(pod))
        worker.observe(state for state in self._states if state.pod == pod.uid)
        self._workers[pod.uid] = worker
        if pod.phase not in TERMINAL:
            refusal = await admission.judge(pod, [each for each in self.active() if each.uid != pod.uid])
            if refusal is not None:
                around.say(f"{pod} is refused: {refusal.text}")
                worker.refuse(refusal.reason, refusal.text)
        worker.start(tasks, lambda: self._forget(pod.uid))

    def _forget(self, uid: str) -> None:
        self._workers.pop(uid, None)


def pod_address(pod: Pod) -> str:
    """Nobody listens there; it only looks like one. The same for as long as the Pod lives."""
    known = pod.status.get("podIP")
    number = zlib.crc32(pod.uid.encode())
    return str(known or f"10.{244 + number % 8}.{number >> 8 & 255}.{number >> 16 & 253 | 1}")


def _in_order(batch: Iterable[Change[Pod]]) -> list[Change[Pod]]:
    """New Pods that come together in the order of their creation, everything else as it came."""
    changes = list(batch)
    if any(change.old is not None for change in changes):
        return changes
    return sorted(changes, key=lambda change: change.object.metadata.creation_timestamp)
