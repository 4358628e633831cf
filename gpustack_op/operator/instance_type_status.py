"""Keeps every InstanceType's status: what is free in its pool, in which phase it is and why.

Owns      the whole status of InstanceTypes.
Never     writes a spec, nor any other kind.
Woken by  InstanceType (primary), ClusterQueue of its name, Devices, ResourceFlavors, settings.
Promises  views follow the ledgers and the queue; a Kueue that restarts shows in no phase; a settled cluster sees no
          write.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from gpustack_op.api.kueue import ResourceFlavor
from gpustack_op.api.worker import INSTANCE_TYPES, Devices, InstanceType
from gpustack_op.operator.informers import Informers
from gpustack_op.operator.instance_type_phase import Phase, PhaseReport, Situation, phase_of
from gpustack_op.operator.ownership import is_pool
from gpustack_op.operator.queue_stages import listed_flavors
from gpustack_op.operator.settings.live import LiveSettings
from gpustack_op.runtime.apply import Writer
from gpustack_op.runtime.controller import DONE, Request, Result, TryAgainError
from gpustack_op.runtime.errors import NotFound
from gpustack_op.scheduling import labels, names
from gpustack_op.scheduling.accelerator_key import accelerator_key
from gpustack_op.scheduling.detail import detail
from gpustack_op.scheduling.pool_views import PoolViews, pool_views
from gpustack_op.scheduling.pools import feeds, pool_plan, type_labels
from gpustack_op.scheduling.summary import summary

PATIENCE = 1.0
"""Seconds that a new type shows nothing while its queue is being made: most are active before anybody looks."""

HEARSAY_PATIENCE = 5.0
"""Seconds for which Kueue must complain of an active type's queue before it is told. A Kueue that starts takes back
its complaints within one."""


def wanted_status(type_: InstanceType, views: PoolViews, told: dict[str, Any], report: PhaseReport) -> dict[str, Any]:
    return {
        "phase": str(report.phase),
        "phaseMessage": report.message,
        "entrance": names.entrance(type_.name),
        "summary": summary(type_.spec, views),
        **views.as_json(),
        # An apply that empties a map leaves null behind, which the schema refuses: what is empty is left out.
        **({"detail": told} if told else {}),
    }


def patience(type_: InstanceType, report: PhaseReport) -> float:
    """Seconds that the report must hold before it is told."""
    if report.phase is not Phase.ACTIVATING:
        return 0.0
    if type_.status is None:
        return PATIENCE
    return HEARSAY_PATIENCE if report.hearsay and type_.status.get("phase") == Phase.ACTIVE else 0.0


def told_before(type_: InstanceType) -> PhaseReport:
    """What an active type says at present."""
    return PhaseReport(Phase.ACTIVE, str((type_.status or {}).get("phaseMessage") or ""))


def pool_in_words(type_: InstanceType) -> str:
    """What the pool asks of a node, as a person would say it."""
    spec = type_.spec
    cpu = spec.general_group if spec.general_group not in {None, "", "generic"} else None
    hardware = " with ".join(part for part in (spec.accelerator_group, cpu) if part) or "CPU cores"
    return f"{hardware} on {spec.os}/{spec.arch}"


class InstanceTypeStatusReconciler:
    name = "instance-type-status"

    def __init__(
        self,
        informers: Informers,
        writer: Writer,
        settings: LiveSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.informers = informers
        self.writer = writer
        self.settings = settings
        self.clock = clock
        self._passing_since: dict[str, float] = {}
        informers.devices.add_index("accelerator", accelerators_of)

    async def reconcile(self, request: Request) -> Result:
        type_ = self.informers.types.get(request.name)
        if type_ is None:
            self._passing_since.pop(request.name, None)
            return DONE
        self._check_known()
        marks = type_labels(type_.spec)
        devices = self._devices(type_, marks)
        flavors = [flavor for flavor in self.informers.flavors.all() if feeds(flavor, marks)]
        queue = self.informers.queues.get(type_.name)
        views = pool_views(
            accelerator_group=(type_.spec.accelerator_group or "") if type_.spec.acceleratable else "",
            queue=queue if queue is not None and is_pool(queue) else None,
            devices=devices,
            overcommit=self.settings.current.instance_general_resources_overcommit,
        )
        told = detail(type_.spec, flavors, devices)
        report = phase_of(self._situation(type_, flavors))
        wait = self._patience_left(type_, report)
        if wait > 0 and type_.status is None:
            return Result(requeue_after=wait)
        status = wanted_status(type_, views, told, report if wait <= 0 else told_before(type_))
        with suppress(NotFound):  # it went while we looked
            await self.writer.converge_status(INSTANCE_TYPES, status, type_)
        return Result(requeue_after=wait) if wait > 0 else DONE

    def _check_known(self) -> None:
        """A kind that is not served is something to tell; one that has yet to be read is nothing to judge by."""
        for informer in (self.informers.queues, self.informers.flavors):
            if not (informer.synced or informer.missing):
                raise TryAgainError(f"{informer} is still being read")

    def _patience_left(self, type_: InstanceType, report: PhaseReport) -> float:
        """Seconds until a report that may yet pass is told; 0 for any other."""
        wanted = patience(type_, report)
        if not wanted:
            self._passing_since.pop(type_.name, None)
            return 0.0
        return self._passing_since.setdefault(type_.name, self.clock()) + wanted - self.clock()

    def _situation(self, type_: InstanceType, flavors: list[ResourceFlavor]) -> Situation:
        queue = self.informers.queues.get(type_.name)
        listed = {flavor.name for flavor in listed_flavors(queue)} if queue else set()
        plan = pool_plan(type_labels(type_.spec), flavors, listed=listed)
        return Situation(
            name=type_.name,
            pool=pool_in_words(type_),
            deleting=type_.deleting,
            inactive=bool(type_.spec.inactive),
            kueue_missing=self.informers.queues.missing,
            queue=queue,
            foreign_queue=queue is not None and not is_pool(queue),
            backed=bool(plan.flavors),
            left_out=plan.left_out,
        )

    def _devices(self, type_: InstanceType, marks: dict[str, str]) -> list[Devices]:
        selector = labels.devices_selector(marks)
        candidates = self.informers.devices.by_index("accelerator", type_.spec.accelerator_group or "")
        return [devices for devices in candidates if labels.selects(selector, devices.labels)]

    # --- What wakes it ------------------------------------------------------------------------------------------

    def types_of_flavor(self, flavor: ResourceFlavor) -> list[Request]:
        return [Request(t.name) for t in self.informers.types.all() if feeds(flavor, type_labels(t.spec))]

    def types_of_devices(self, devices: Devices) -> list[Request]:
        present = set(accelerators_of(devices))
        return [Request(t.name) for t in self.informers.types.all() if t.spec.accelerator_group in present]


def accelerators_of(devices: Devices) -> list[str]:
    """The accelerator keys of a node's cards."""
    capable = {accelerator_key(group.manufacturer, group.id) for group in devices.spec.groups or ()}
    accounted = {accelerator_key(group.manufacturer, group.id) for group in devices.status.groups or ()}
    return sorted(capable | accounted)
