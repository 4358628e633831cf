"""The caches that the InstanceType webhooks read, filled by hand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gpustack_op.api.core import NODES
from gpustack_op.api.kueue import RESOURCE_FLAVORS
from gpustack_op.api.meta import KubeObject
from gpustack_op.api.worker import DEVICES
from gpustack_op.runtime.informer import Informer
from gpustack_op.runtime.listing import Listing
from gpustack_op.runtime.selector import EVERYTHING
from tests import builders


@dataclass
class CatalogCaches:
    """The three caches that the webhook reads; nothing is in them until they are filled."""

    flavors: Informer[Any]
    devices: Informer[Any]
    nodes: Informer[Any]

    @classmethod
    def unread(cls) -> CatalogCaches:
        return cls(*(Informer(resource, EVERYTHING) for resource in (RESOURCE_FLAVORS, DEVICES, NODES)))

    async def read(self) -> None:
        await self.flavors.replace(listing(builders.walkthrough_flavors()))
        await self.devices.replace(listing(builders.walkthrough_devices()))
        await self.nodes.replace(listing([builders.node("a10g")]))


def listing(objects: Iterable[KubeObject]) -> Listing[Any]:
    whole: Listing[Any] = Listing()
    whole.version = "9"
    whole.objects |= {("", one.name): one for one in objects}
    return whole
