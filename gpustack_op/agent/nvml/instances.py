"""MIG: the partitions of NVIDIA's cards, made and taken down through the library.

Guarantees   Each step is read back before the next: an instance counts as made when the driver lists it in its place
             with an id that can be computed on, and as gone when the driver lists it no longer. A GPU instance whose
             compute instance could not be made is taken down again.
Assumptions  The mode is the administrator's: it is never switched here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import pynvml

from gpustack_op.agent.nvml.errors import Meaning, NvmlError
from gpustack_op.agent.nvml.library import Handle, Library, asked, call
from gpustack_op.agent.nvml.profiles import DriverProfile, driver_profiles
from gpustack_op.agent.nvml.readings import mig_devices
from gpustack_op.agent.nvml.text import text_of
from gpustack_op.agent.partitions.driver import Instance, PartitionError, PartitionInUseError
from gpustack_op.api.worker import Placement
from gpustack_op.scheduling.memory_text import MEBIBYTE

MOST = 64
"""Instances of one profile that are asked for at once; no card takes as many."""

SHARED_ENGINES = 0
"""The only engine profile there is."""

COMPUTE_PROFILES = 16
"""Compute profiles that are asked for, by number; the public header ends at 9."""

ANY_PROFILE = range(32)
"""GPU instance profiles that are asked for: also those that are not on offer take their place."""


class MigDriver:
    def __init__(self, library: Library) -> None:
        self._library = library

    def instances(self, card: str) -> tuple[Instance, ...]:
        with self._card(card) as device:
            return _instances(device)

    def create(self, card: str, profile: str, place: Placement) -> Instance:
        with self._card(card) as device:
            known = _profile(device, profile)
            wanted = pynvml.c_nvmlGpuInstancePlacement_t(place.start, place.length)
            made = call(pynvml.nvmlDeviceCreateGpuInstanceWithPlacement, device, known.id, pynvml.byref(wanted))
            try:
                return _completed(device, made, known, place)
            except (NvmlError, PartitionError):
                _undo(made)
                raise

    def destroy(self, card: str, instance: Instance) -> None:
        with self._card(card) as device:
            gpu_instance = call(pynvml.nvmlDeviceGetGpuInstanceById, device, instance.id)
            for part in _compute_instances(gpu_instance):
                call(pynvml.nvmlComputeInstanceDestroy, part)
            if _compute_instances(gpu_instance):
                raise PartitionError(f"card {card}: the driver still lists compute instances of {instance.id}")
            call(pynvml.nvmlGpuInstanceDestroy, gpu_instance)
            if any(left.id == instance.id and left.place == instance.place for left in _instances(device)):
                raise PartitionError(f"card {card}: the driver still lists GPU instance {instance.id}")

    @contextmanager
    def _card(self, card: str) -> Iterator[Handle]:
        """The card's handle. The library stays open meanwhile."""
        try:
            with self._library.using():
                yield call(pynvml.nvmlDeviceGetHandleByUUID, card)
        except NvmlError as error:
            kind = PartitionInUseError if error.meaning is Meaning.IN_USE else PartitionError
            raise kind(f"card {card}: {error}") from error


def _offered(device: Handle) -> tuple[DriverProfile, ...]:
    memory = asked(pynvml.nvmlDeviceGetMemoryInfo, device)
    return driver_profiles(device, memory.total // MEBIBYTE if memory else 0)


def _profile(device: Handle, name: str) -> DriverProfile:
    offered = _offered(device)
    for profile in offered:
        if profile.name == name:
            return profile
    names = ", ".join(profile.name for profile in offered) or "nothing"
    raise PartitionError(f'there is no partition profile "{name}"; the card offers {names}')


def _completed(device: Handle, made: Handle, known: DriverProfile, place: Placement) -> Instance:
    """The compute instance that spans it, and both as the driver lists them."""
    number = call(pynvml.nvmlGpuInstanceGetInfo, made).id
    call(pynvml.nvmlGpuInstanceCreateComputeInstance, made, _spanning(made, known.compute_slices))
    listed = next((instance for instance in _instances(device) if instance.id == number), None)
    if listed is None or listed.place != place or not listed.uuid:
        raise PartitionError(f"GPU instance {number} was made, but the driver lists {listed or 'none'}")
    return listed


def _undo(made: Handle) -> None:
    with suppress(NvmlError):
        for part in _compute_instances(made):
            call(pynvml.nvmlComputeInstanceDestroy, part)
    with suppress(NvmlError):
        call(pynvml.nvmlGpuInstanceDestroy, made)


def _instances(device: Handle) -> tuple[Instance, ...]:
    """By place. Also those whose profile is not on offer."""
    names = {profile.id: profile.name for profile in _offered(device)}
    devices = _uuids(device)
    found = []
    for number in ANY_PROFILE:
        profile = asked(pynvml.nvmlDeviceGetGpuInstanceProfileInfo, device, number, 1)
        if profile is not None:
            instances = _listed(pynvml.nvmlDeviceGetGpuInstances, pynvml.c_nvmlGpuInstance_t, device, profile.id)
            found += [_instance(one, profile.sliceCount, names.get(profile.id, ""), devices) for one in instances]
    return tuple(sorted(found, key=lambda instance: (instance.place.start, instance.id)))


def _instance(one: Handle, slices: int, profile: str, devices: dict[int, list[tuple[int, str]]]) -> Instance:
    info = call(pynvml.nvmlGpuInstanceGetInfo, one)
    parts = devices.get(info.id, [])
    compute_id, uuid = parts[0] if parts else (0, "")
    return Instance(
        id=info.id,
        place=Placement(start=info.placement.start, length=info.placement.size),
        compute_slices=slices,
        profile=profile,
        uuid=uuid,
        compute_id=compute_id,
        parts=len(_compute_instances(one)),
    )


def _uuids(device: Handle) -> dict[int, list[tuple[int, str]]]:
    """By GPU instance, its compute instances and what one computes on them by."""
    found: dict[int, list[tuple[int, str]]] = {}
    for part in mig_devices(device):
        compute_id = call(pynvml.nvmlDeviceGetComputeInstanceId, part)
        uuid = text_of(partial(call, pynvml.nvmlDeviceGetUUID, part))
        found.setdefault(call(pynvml.nvmlDeviceGetGpuInstanceId, part), []).append((compute_id, uuid))
    return found


def _compute_instances(gpu_instance: Handle) -> list[Handle]:
    found: list[Handle] = []
    for number in range(COMPUTE_PROFILES):
        profile = _compute_profile(gpu_instance, number)
        if profile is not None:
            kind = pynvml.c_nvmlComputeInstance_t
            found += _listed(pynvml.nvmlGpuInstanceGetComputeInstances, kind, gpu_instance, profile.id)
    return found


def _spanning(gpu_instance: Handle, slices: int) -> int:
    """The compute profile that takes all of it."""
    for number in range(COMPUTE_PROFILES):
        profile = _compute_profile(gpu_instance, number)
        if profile is not None and profile.sliceCount == slices:
            return int(profile.id)
    raise PartitionError(f"the driver has no compute profile of {slices} slices")


def _compute_profile(gpu_instance: Handle, number: int) -> Any | None:
    return asked(pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo, gpu_instance, number, SHARED_ENGINES, 1)


def _listed(question: Callable[..., Any], kind: Any, of: Handle, profile_id: int) -> list[Handle]:
    found, count = (kind * MOST)(), pynvml.c_uint(0)
    asked(question, of, profile_id, found, pynvml.byref(count))
    return [found[index] for index in range(count.value)]
