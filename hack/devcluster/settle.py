"""Waiting until our programs have taken in all machines and have nothing more to do.

Guarantees   `settled` returns when every core and card of the machines is counted in a flavor and in a pool, every pool
             is open and in the catalog, and nothing of it has changed for a second. It raises as soon as a part of the
             cluster has ended, and when time is up says what is still missing and what the operator logged last.
Assumptions  The settings are the defaults: all machines are managed, and pools are derived from them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from devcluster.errors import ClusterError, PartError
from devcluster.handle import RunningCluster
from devcluster.paths import Layout
from devcluster.programs import OPERATOR_PART
from gpustack_op.agent.inventory import Machine
from gpustack_op.api.kueue import CLUSTER_QUEUES, RESOURCE_FLAVORS, ClusterQueue, ResourceFlavor
from gpustack_op.api.meta import KubeObject
from gpustack_op.api.worker import (
    DEVICES,
    INSTANCE_TYPE_FLAVORS,
    INSTANCE_TYPES,
    Devices,
    InstanceType,
    InstanceTypeFlavor,
)
from gpustack_op.runtime.client import Client
from gpustack_op.scheduling.flavor_facts import live_facts

TIMEOUT: Final = 60.0
"""Seconds; about 3 are usual, many more where others use the machine too."""

QUIET: Final = 1.0
"""Seconds without a change that make a state the last one."""

POLL: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """All that is derived from the machines, as it is at about one moment."""

    flavors: Sequence[ResourceFlavor] = ()
    queues: Sequence[ClusterQueue] = ()
    types: Sequence[InstanceType] = ()
    catalog: Sequence[InstanceTypeFlavor] = ()
    devices: Sequence[Devices] = ()

    @property
    def versions(self) -> frozenset[tuple[str, str]]:
        """Differs as soon as anything has changed."""
        everything: list[KubeObject] = [*self.flavors, *self.queues, *self.types, *self.catalog, *self.devices]
        return frozenset((each.uid, each.metadata.resource_version) for each in everything)


async def read_pools(client: Client) -> Pools:
    flavors, queues, types, catalog, devices = await asyncio.gather(
        client.list(RESOURCE_FLAVORS),
        client.list(CLUSTER_QUEUES),
        client.list(INSTANCE_TYPES),
        client.list(INSTANCE_TYPE_FLAVORS),
        client.list(DEVICES),
    )
    return Pools(flavors=flavors, queues=queues, types=types, catalog=catalog, devices=devices)


async def settled(cluster: RunningCluster, machines: Sequence[Machine], *, within: float = TIMEOUT) -> Pools:
    """`within` is in seconds."""
    deadline = time.monotonic() + within
    async with Client(cluster.administrator, user_agent="devcluster") as client:
        pools, since = await read_pools(client), time.monotonic()
        while (lacking := missing(machines, pools)) or time.monotonic() - since < QUIET:
            await _complain_of_the_dead(cluster)
            if time.monotonic() > deadline:
                raise _not_settled(cluster.layout, lacking, within)
            await asyncio.sleep(POLL)
            latest = await read_pools(client)
            if latest.versions != pools.versions:
                since = time.monotonic()
            pools = latest
        return pools


def missing(machines: Sequence[Machine], pools: Pools) -> list[str]:
    """What is not as it will be, one sentence each."""
    cores = sum(machine.cpu.cores for machine in machines)
    cards = sum(len(machine.accelerators) for machine in machines)
    facts = live_facts(pools.flavors)
    found = [
        _counted("cores", "flavors", sum(each.capacity for each in facts if not each.acceleratable), cores),
        _counted("cards", "flavors", sum(each.capacity for each in facts if each.acceleratable), cards),
        _counted("cores", "pools", _capacity(pools.types, "cpu"), cores),
        _counted("cards", "pools", _capacity(pools.types, "accelerator"), cards),
        *(f"{each.name} is {phase}" for each in pools.types if (phase := _phase(each)) != "Active"),
    ]
    listed = {row.spec.accelerator_group or row.spec.general_group for row in pools.catalog}
    wanted = {each.spec.accelerator_group or each.spec.general_group or "" for each in pools.types}
    found += [f"{group} is not in the catalog" for group in sorted(wanted - listed)]
    return [sentence for sentence in found if sentence]


def _counted(what: str, where: str, present: int, wanted: int) -> str:
    return "" if present == wanted else f"{present} of {wanted} {what} are in {where}"


def _capacity(types: Iterable[InstanceType], view: str) -> int:
    return sum(int(_view(each, view).get("capacity", 0)) for each in types)


def _view(type_: InstanceType, view: str) -> dict[str, Any]:
    value = (type_.status or {}).get(view)
    return value if isinstance(value, dict) else {}


def _phase(type_: InstanceType) -> str:
    return str((type_.status or {}).get("phase") or "without a phase")


async def _complain_of_the_dead(cluster: RunningCluster) -> None:
    for part in await cluster.status():
        if part.state == "ended":
            raise PartError(part.part, part.ending or "ended", part.tail)


def _not_settled(layout: Layout, lacking: Sequence[str], seconds: float) -> ClusterError:
    what = "; ".join(lacking) or "objects keep changing"
    log = layout.log(OPERATOR_PART)
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:]) if log.exists() else "(there is no log)"
    return PartError(OPERATOR_PART, f"has not settled within {seconds:.0f} s: {what}", tail)
