"""Keeps the catalog: one InstanceTypeFlavor for every group of hardware that an InstanceType may name.

Owns      every InstanceTypeFlavor.
Never     touches a ResourceFlavor.
Woken by  ResourceFlavors, Devices, InstanceTypeFlavors, settings; all of them mean one pass over the catalog.
Promises  rows follow the flavors and the setting `instance-type-aware-cpu-manufacturer`; a settled cluster sees no
          write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any

from gpustack_op.api.worker import INSTANCE_TYPE_FLAVORS
from gpustack_op.operator.informers import Informers
from gpustack_op.operator.settings.live import LiveSettings
from gpustack_op.runtime.apply import Owned, Writer
from gpustack_op.runtime.controller import DONE, Request, Result
from gpustack_op.scheduling.catalog import catalog_rows
from gpustack_op.scheduling.flavor_facts import is_ours
from gpustack_op.scheduling.pools import offers

OWNED = Owned(exact=("spec",))


class InstanceTypeFlavorReconciler:
    name = "instance-type-flavor"
    ONLY = Request("catalog")

    def __init__(self, informers: Informers, writer: Writer, settings: LiveSettings) -> None:
        self.informers = informers
        self.writer = writer
        self.settings = settings

    async def reconcile(self, request: Request) -> Result:
        flavors = [f for f in self.informers.flavors.all() if is_ours(f) and not f.deleting and offers(f)]
        aware = self.settings.current.instance_type_aware_cpu_manufacturer
        wanted = catalog_rows(flavors, self.informers.devices.all(), aware=aware)
        await _at_once(self._keep(row) for row in wanted)
        kept = {row["metadata"]["name"] for row in wanted}
        stale = [row for row in self.informers.catalog.all() if row.name not in kept and not row.deleting]
        await _at_once(self.writer.delete(INSTANCE_TYPE_FLAVORS, row) for row in stale)
        return DONE

    async def _keep(self, row: dict[str, Any]) -> None:
        present = self.informers.catalog.get(row["metadata"]["name"])
        await self.writer.converge(INSTANCE_TYPE_FLAVORS, row, present, owned=OWNED)


async def _at_once(writes: Iterable[Awaitable[object]]) -> None:
    """One that fails keeps none of the others from being done; the first failure is then raised."""
    for outcome in await asyncio.gather(*writes, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
