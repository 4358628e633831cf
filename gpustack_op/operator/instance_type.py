"""Derives an InstanceType for every pool of the cluster, and sees InstanceTypes in and out.

Owns      derived InstanceTypes at their creation, the finalizer `gpustack.ai/controlled`, descriptors of a type that
          were not known when it was made.
Never     changes or removes a type that is there, nor a descriptor that has a value.
Woken by  InstanceType (primary), ResourceFlavors, ClusterQueues (their end), Devices, settings.
Promises  every pool that a flavor derives has its type; a deleted type goes once its queue is known gone.
"""

from __future__ import annotations

from typing import Any

from gpustack_op.api.kueue import CLUSTER_QUEUES, ResourceFlavor
from gpustack_op.api.worker import INSTANCE_TYPES, Devices, InstanceType
from gpustack_op.operator.informers import Informers
from gpustack_op.operator.ownership import is_pool
from gpustack_op.operator.settings.live import LiveSettings
from gpustack_op.runtime.apply import Writer
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.controller import DONE, Request, Result
from gpustack_op.runtime.errors import AlreadyExists, NotFound
from gpustack_op.runtime.finalizers import add_finalizer, remove_finalizer
from gpustack_op.scheduling import labels
from gpustack_op.scheduling.derived_type import derived_type, derived_type_name
from gpustack_op.scheduling.descriptors import missing_descriptors
from gpustack_op.scheduling.flavor_facts import is_ours
from gpustack_op.scheduling.pools import feeds, offers, type_labels


class InstanceTypeReconciler:
    name = "instance-type"

    def __init__(self, informers: Informers, client: Client, writer: Writer, settings: LiveSettings) -> None:
        self.informers = informers
        self.client = client
        self.writer = writer
        self.settings = settings

    async def reconcile(self, request: Request) -> Result:
        present = self.informers.types.get(request.name)
        if present is None:
            await self._derive(request.name)
        elif present.deleting:
            await self._release(present)
        else:
            await self._keep(present)
        return DONE

    async def _derive(self, name: str) -> None:
        settings = self.settings.current
        if not settings.instance_type_derived_from_node:
            return
        aware = settings.instance_type_aware_cpu_manufacturer
        origin = min(
            (f for f in self._offered() if derived_type_name(f, aware=aware) == name),
            key=lambda f: f.name,
            default=None,
        )
        if origin is None:
            return
        try:
            await self.client.create(
                INSTANCE_TYPES, derived_type(origin, aware=aware), field_manager=self.writer.field_manager
            )
        except AlreadyExists:
            return  # the cache will show it; one that is being deleted wakes us again when it is gone

    async def _keep(self, present: InstanceType) -> None:
        if labels.CONTROLLED_FINALIZER not in (present.metadata.finalizers or ()):
            present = await add_finalizer(self.client, INSTANCE_TYPES, present, labels.CONTROLLED_FINALIZER) or present
        missing = self._missing(present)
        if missing:
            await self.client.merge_patch(
                INSTANCE_TYPES, present.name, {"spec": missing}, field_manager=self.writer.field_manager
            )

    def _missing(self, present: InstanceType) -> dict[str, Any]:
        return missing_descriptors(present, self.informers.flavors.all(), self.informers.devices.all())

    async def _release(self, present: InstanceType) -> None:
        if labels.CONTROLLED_FINALIZER in (present.metadata.finalizers or ()) and await self._queue_is_gone(
            present.name
        ):
            await remove_finalizer(self.client, INSTANCE_TYPES, present, labels.CONTROLLED_FINALIZER)

    async def _queue_is_gone(self, name: str) -> bool:
        queue = self.informers.queues.get(name)
        if queue is not None:
            return not is_pool(queue)
        try:
            return not is_pool(await self.client.get(CLUSTER_QUEUES, name))
        except NotFound as absence:
            return absence.names_object

    def _offered(self) -> list[ResourceFlavor]:
        return [f for f in self.informers.flavors.all() if is_ours(f) and not f.deleting and offers(f)]

    # --- What wakes it ------------------------------------------------------------------------------------------

    def types_of_flavor(self, flavor: ResourceFlavor) -> list[Request]:
        """The types a flavor derives with and without CPU awareness, and those whose pool it feeds."""
        if not is_ours(flavor):
            return []
        derived = {derived_type_name(flavor, aware=aware) for aware in (False, True)}
        fed = {t.name for t in self.informers.types.all() if feeds(flavor, type_labels(t.spec))}
        return [Request(name) for name in derived | fed]

    def types_of_devices(self, devices: Devices) -> list[Request]:
        return [
            Request(t.name)
            for t in self.informers.types.all()
            if labels.selects(
                labels.devices_selector(type_labels(t.spec)), {**devices.labels, labels.MANAGED: labels.TRUE}
            )
        ]

    def everything(self) -> list[Request]:
        """What a changed setting may concern."""
        names = {t.name for t in self.informers.types.all()}
        for flavor in self.informers.flavors.all():
            names |= {request.name for request in self.types_of_flavor(flavor)}
        return [Request(name) for name in names]
