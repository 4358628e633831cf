"""One more machine for a test to ill-treat: it shares no flavor, and as to its cards no pool, with the other four."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from devcluster.handle import RunningCluster
from devcluster.paths import MACHINES
from tests.e2e.looking import DEVICES, INSTANCE_TYPES, NODE_FEATURES, NODES, RESOURCE_FLAVORS, Looking
from tests.e2e.waiting import eventually

NODE: Final = "node-spare"
POOL: Final = "gpustack--nvidia-l4-linux-amd64"
FLAVORS: Final = (
    "gpustack--amd-epyc-7r32--nvidia-l4-linux-amd64-2d",
    "gpustack--amd-epyc-7r32-linux-amd64-8c",
)


class SpareMachine:
    """A node with 8 cores and two cards; `file` is its inventory."""

    def __init__(self, cluster: RunningCluster, looking: Looking, file: Path) -> None:
        self._cluster = cluster
        self._looking = looking
        self._machine = machine()
        self.file = file

    async def join(self) -> None:
        self._write()
        await self._cluster.add_machine(self.file)
        await self._cluster.start_agent(NODE)
        await eventually(self.free, "2/2 2/20 100/200 0/0 0/0", within=60)

    async def leave(self) -> None:
        """Can be called again."""
        if NODE in await self._looking.names(NODES):
            await self._cluster.remove_machine(NODE)
        await eventually(self.traces, [], within=60)

    async def forget_pool(self) -> None:
        """Types outlive the machines they were derived from, so a person deletes this one."""
        await self._cluster.kubectl("delete", "instancetype", POOL, "--ignore-not-found", "--timeout=30s")

    def fall_ill(self, card: int, *, healthy: bool = False) -> None:
        """As the driver would tell; the agent reads the inventory again by itself."""
        self._machine["accelerators"][card]["healthy"] = healthy
        self._write()

    async def free(self) -> str:
        return await self._looking.view(POOL)

    async def capacity(self) -> str:
        """Cards, shares and percents that there are, free or not."""
        status = (await self._looking.find(INSTANCE_TYPES, POOL))["status"]
        views = ("accelerator", "acceleratorShared", "acceleratorSliced")
        return " ".join(status[view]["capacity"] for view in views)

    async def traces(self) -> list[str]:
        """What is there because of this machine."""
        flavors = [name for name in await self._looking.names(RESOURCE_FLAVORS) if name in FLAVORS]
        devices = [name for name in await self._looking.names(DEVICES) if name == NODE]
        features = [name for name in await self._looking.names(NODE_FEATURES) if NODE in name]
        return flavors + devices + features

    def _write(self) -> None:
        """Replaced at once, so that nobody reads half a file."""
        fresh = self.file.with_suffix(".new")
        fresh.write_text(yaml.safe_dump(self._machine))
        fresh.replace(self.file)


def machine() -> dict[str, Any]:
    """node-a10g under another name, with twice the cores and other cards."""
    facts: dict[str, Any] = yaml.safe_load((MACHINES / "node-a10g.yaml").read_text())
    facts["node"] = NODE
    facts["cpu"] |= {"cores": 8, "physicalCores": 4}
    [card] = facts["accelerators"]
    l4 = {"name": "NVIDIA L4", "memoryMib": 23034, "busWidth": 192, "cores": 7424, "computeCapability": "8.9"}
    places = ({"uuid": f"GPU-spare-{n}", "minor": n, "pciBusId": f"00000000:00:1{n}.0"} for n in range(2))
    facts["accelerators"] = [{**card, **l4, **place} for place in places]
    return facts
