"""The real kubelet's device manager on the same bench as the simulated one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from devcluster.kubelet.pods import Pod, claimant, is_sidecar
from devcluster.node_resources import Offer
from tests.runtime.kubelet.bench import Bench, FailedError


class RealKubelet(Bench):
    """`program` is driven by a line of JSON each way."""

    def __init__(self, root: Path, program: Path) -> None:
        super().__init__(root)
        self._program = program
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, *, running: Sequence[tuple[str, str]] = (), all_known: bool = True) -> None:
        self._process = await asyncio.create_subprocess_exec(
            str(self._program),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        folder, active = str(self.folders.plugins), self._active()
        await self._ask("start", folder=folder, running=list(running), ready=all_known, active=active)

    async def stop(self) -> None:
        if self._process is not None:
            await self._ask("stop")
            self._process.kill()
            await self._process.communicate()
            self._process = None

    async def all_known(self) -> None:
        await self._ask("ready")

    async def offer(self) -> Offer:
        answer = await self._ask("offer")
        return Offer(answer.get("capacity", {}), answer.get("allocatable", {}), answer.get("dropped", []))

    async def allocate(self, pod: Pod) -> None:
        await self._ask("active", active=self._active())
        await self._ask("admit", pod=described(pod))

    async def given(self, pod: Pod, container: str) -> Mapping[str, str]:
        answer = await self._ask("given", pod=described(pod), container=container)
        found: Mapping[str, str] = answer.get("environment", {})
        return found

    async def held(self, uid: str, container: str = "main") -> list[str]:
        await self._ask("active", active=self._active())
        answer = await self._ask("held", pod={"uid": uid}, container=container)
        return sorted(each.partition(" ")[2] for each in answer.get("held", []))

    def refuse_checkpoints(self, refused: bool = True) -> None:
        """Its unfinished file has another name each time; a folder where the finished one goes does it as well."""
        if refused:
            self.folders.checkpoint.unlink(missing_ok=True)
            self.folders.checkpoint.mkdir()
        else:
            self.folders.checkpoint.rmdir()

    def _active(self) -> list[dict[str, Any]]:
        return [described(pod) for pod in self.pods.values()]

    async def _ask(self, operation: str, **arguments: Any) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode({"op": operation, **arguments}) + b"\n")
        answer: dict[str, Any] = msgspec.json.decode(await self._process.stdout.readline())
        if answer["error"]:
            raise FailedError(answer["error"])
        return answer


def described(pod: Pod) -> dict[str, Any]:
    def container(spec: dict[str, Any]) -> dict[str, Any]:
        return {
            "name": spec["name"],
            "limits": dict(claimant(pod, spec).limits),
            "sidecar": is_sidecar(spec),
        }

    return {
        "uid": pod.uid,
        "init": [container(each) for each in pod.init_containers],
        "containers": [container(each) for each in pod.containers],
    }
