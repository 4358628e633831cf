"""Keeps the catalog: one InstanceTypeFlavor for every group of hardware that an InstanceType may name.

Owns      every InstanceTypeFlavor.
Never     touches a ResourceFlavor.
Woken by  ResourceFlavors, Devices, InstanceTypeFlavors, settings; all of them mean one pass over the catalog.
Promises  rows follow the flavors and the setting `instance-type-aware-cpu-manufacturer`; a settled cluster sees no
          write.
"""

from __future__ import annotations

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
        for row in wanted:
            present = self.informers.catalog.get(row["metadata"]["name"])
            await self.writer.converge(INSTANCE_TYPE_FLAVORS, row, present, owned=OWNED)
        kept = {row["metadata"]["name"] for row in wanted}
        for stale in self.informers.catalog.all():
            if stale.name not in kept and not stale.deleting:
                await self.writer.delete(INSTANCE_TYPE_FLAVORS, stale)
        return DONE
