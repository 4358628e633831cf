"""What every injector takes and gives.

Guarantees   Cards come in the order of their numbers, which is the order in which the container will count them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gpustack_op.api.worker import Card, DeviceGroup
from gpustack_op.scheduling.manufacturers import Family
from gpustack_op.scheduling.slices import SliceRequest


class InjectionError(Exception):
    """The container cannot be given what it was granted."""


@dataclass(frozen=True, slots=True)
class GrantedCard:
    group: DeviceGroup
    card: Card


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """`partitions` are the ids of what was carved, in the order of the cards; `slice` is set for slices only.

    With visibility a container sees what another container of its Pod was granted.
    """

    pod_uid: str
    container: str
    family: Family
    cards: tuple[GrantedCard, ...]
    slice: SliceRequest | None = None
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Mount:
    container_path: str
    host_path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class DeviceNode:
    container_path: str
    host_path: str
    permissions: str = "rw"


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """`cdi_devices` are fully qualified names."""

    variables: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    devices: tuple[DeviceNode, ...] = ()
    cdi_devices: tuple[str, ...] = ()


class Injector(Protocol):
    async def inject(self, grant: Grant) -> Injection:
        """An InjectionError when it cannot be done; then nothing is left behind that another try would trip over."""


def in_order(cards: tuple[GrantedCard, ...]) -> tuple[GrantedCard, ...]:
    return tuple(sorted(cards, key=lambda granted: granted.card.index))
