"""NVIDIA's cards in a container.

Guarantees   One channel, never two: names of the container device interface where the runtime resolves them and the
             node's specs name every card, else the variable that NVIDIA's runtime reads. A slice is capped in memory
             on each of its cards, or refused. A partition goes by the variable: no spec names what was just made.
Assumptions  What caps a slice lies in `<state>/lib/nvidia`. The cap is cooperative: a program can step around it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from gpustack_op.agent.injection.base import Grant, GrantedCard, Injection, InjectionError, Mount, in_order
from gpustack_op.agent.injection.cdi import Specs
from gpustack_op.scheduling.manufacturers import Family
from gpustack_op.scheduling.slices import SliceError, SliceRequest, memory_cap

VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"
KIND: Final = "nvidia.com/gpu"
LOCKS: Final = Path("/tmp/vgpulock")
"""On the host and in containers: what holds several slices of a card to their limits meets here."""

CACHE: Final = "/tmp/vgpu/cudevshr.cache"
PRELOAD: Final = "/etc/ld.so.preload"
LIBRARY: Final = "/usr/local/vgpu/libvgpu.so"
UNKNOWN_CUDA: Final = 12
OPEN: Final = 0o777
"""Containers of any user write there."""


class NvidiaInjector:
    """`state` is the agent's folder on the host; `cdi` says whether the runtime resolves CDI names."""

    def __init__(
        self, state: Path, *, cdi: Callable[[], bool], specs: Specs | None = None, locks: Path = LOCKS
    ) -> None:
        self._state = state
        self._cdi = cdi
        self._specs = specs or Specs()
        self._locks = locks

    async def inject(self, grant: Grant) -> Injection:
        return await asyncio.to_thread(self._injected, grant)

    def _injected(self, grant: Grant) -> Injection:
        cards = in_order(grant.cards)
        if grant.partitions:
            return Injection(variables={VISIBLE: ",".join(grant.partitions)})
        if not cards:
            raise InjectionError("a container was granted no card")
        channel = self._channel([granted.card.id for granted in cards])
        if grant.family is not Family.SLICED:
            return channel
        limits = _limits(cards, grant.slice or SliceRequest())
        return Injection(
            variables={**channel.variables, **limits},
            mounts=self._mounts(grant, _cuda(cards)),
            cdi_devices=channel.cdi_devices,
        )

    def _channel(self, cards: Iterable[str]) -> Injection:
        ids = list(cards)
        names = tuple(f"{KIND}={card}" for card in ids)
        if self._cdi() and self._specs.names().issuperset(names):
            return Injection(cdi_devices=names)
        return Injection(variables={VISIBLE: ",".join(ids)})

    def _mounts(self, grant: Grant, cuda: int) -> tuple[Mount, ...]:
        library = self._state / "lib" / "nvidia"
        work = work_folder(self._state, grant.pod_uid, grant.container)
        for folder in (self._locks, work):
            _make(folder)
        return (
            Mount(str(LOCKS), str(self._locks)),
            Mount(PRELOAD, str(library / "ld.so.preload"), read_only=True),
            Mount(LIBRARY, str(library / f"cuda-{cuda}" / "libvgpu.so"), read_only=True),
            Mount(str(Path(CACHE).parent), str(work)),
        )


def work_folder(state: Path, pod_uid: str, container: str) -> Path:
    return state / "pods" / pod_uid / f"c-{container}" / "tmp" / "vgpu"


def _limits(cards: Iterable[GrantedCard], request: SliceRequest) -> dict[str, str]:
    try:
        caps = [memory_cap(request, granted.group.memory) for granted in cards]
    except SliceError as error:
        raise InjectionError(str(error)) from error
    if not all(caps):
        raise InjectionError(
            "a slice would get no memory at all; the card's memory is not known, or it asks too little"
        )
    return {
        "CUDA_DEVICE_SM_LIMIT": str(request.cores),
        **{f"CUDA_DEVICE_MEMORY_LIMIT_{position}": f"{cap}m" for position, cap in enumerate(caps)},
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": CACHE,
        "LIBCUDA_LOG_LEVEL": "0",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }


def _cuda(cards: Iterable[GrantedCard]) -> int:
    majors = {_major(granted.group.runtime_version) for granted in cards}
    if len(majors) > 1:
        told = " and ".join(map(str, sorted(majors)))
        raise InjectionError(f"the cards of one container have CUDA {told}; one library cannot serve both")
    return majors.pop()


def _major(version: str) -> int:
    first = version.partition(".")[0]
    return int(first) if first.isascii() and first.isdigit() and int(first) else UNKNOWN_CUDA


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.chmod(folder, OPEN)
    except OSError as error:
        raise InjectionError(
            f"folder {folder} cannot be made: {error.strerror}; make room, or make it writable"
        ) from error
