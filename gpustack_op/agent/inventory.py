"""A machine described in a YAML file: raw facts, as the kernel and a vendor's library would tell them.

Guarantees   A broken card is reported in `Machine.broken` and left out, the other cards stay usable; whatever else is
             wrong raises an `InventoryError`. Each message names the file, the field, the value and the remedy. The
             order of the cards is the order of the file.
Assumptions  Product names may be anything, even empty: making legal names of them is the naming layer's work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import yaml

from gpustack_op.agent.cpu import Count, Cpu, Positive
from gpustack_op.agent.fields import FieldError, convert
from gpustack_op.api.quantity import Quantity, QuantityError
from gpustack_op.scheduling.manufacturers import MANUFACTURERS

Name = Annotated[str, msgspec.Meta(min_length=1)]


class InventoryError(Exception):
    """The file as a whole cannot be used."""


class OsRelease(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    id: str = ""
    version_id: str = ""


class Driver(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """`cuda` is the vendor's integer form of the runtime version: 13000 is 13.0, and 0 is unknown."""

    version: str = ""
    cuda: Count = 0


class Accelerator(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """One card. None means that the library does not answer the query; a memory of 0 means that it is not told."""

    manufacturer: Name
    uuid: Name
    name: str = ""
    minor: Count | None = None
    pci_bus_id: str = ""
    numa_affinity: str = ""
    cpu_affinity: str = ""
    memory_mib: Count | None = None
    bus_width: Count | None = None
    ecc_enabled: bool | None = None
    cores: Count | None = None
    compute_capability: Annotated[str, msgspec.Meta(pattern=r"^[0-9]+\.[0-9]+$")] | None = None
    mig_mode: bool | None = None
    healthy: bool = True


@dataclass(frozen=True, slots=True)
class BrokenCard:
    """A card that cannot be used as written."""

    file: str
    index: int
    uuid: str
    error: FieldError

    def __str__(self) -> str:
        named = f" ({self.uuid})" if self.uuid else ""
        return f"{self.file}: accelerators[{self.index}]{named}: {self.error}"


class _File(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    node: Name
    os: Name = "linux"
    arch: Name = "amd64"
    kernel: str = ""
    os_release: OsRelease = OsRelease()
    boot_id: str = ""
    cpu: Cpu
    memory: str
    ephemeral_storage: str = "0"
    pods: Positive = 110
    driver: Driver = Driver()
    accelerators: list[Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """`memory` and `ephemeral_storage` are quantities. A new `boot_id` says that the machine has rebooted."""

    node: str
    os: str
    arch: str
    kernel: str
    os_release: OsRelease
    boot_id: str
    cpu: Cpu
    memory: str
    ephemeral_storage: str
    pods: int
    driver: Driver
    accelerators: tuple[Accelerator, ...]
    broken: tuple[BrokenCard, ...]


def load(path: str | Path) -> Machine:
    """Reads the file; an InventoryError says why it cannot be used."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InventoryError(f"{path}: cannot be read: {error}; give a readable UTF-8 text file") from error
    return parse(text, file=str(path))


def parse(text: str, *, file: str) -> Machine:
    raw = _decode(text, file)
    try:
        whole = convert(raw, _File)
        _check_quantity("memory", whole.memory)
        _check_quantity("ephemeralStorage", whole.ephemeral_storage)
    except FieldError as error:
        raise InventoryError(f"{file}: {error}") from error
    cards, broken = _cards(whole.accelerators or [], file)
    return Machine(
        node=whole.node,
        os=whole.os,
        arch=whole.arch,
        kernel=whole.kernel,
        os_release=whole.os_release,
        boot_id=whole.boot_id,
        cpu=whole.cpu,
        memory=whole.memory,
        ephemeral_storage=whole.ephemeral_storage,
        pods=whole.pods,
        driver=whole.driver,
        accelerators=cards,
        broken=broken,
    )


def _decode(text: str, file: str) -> Any:
    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        where = getattr(error, "problem_mark", None)
        line = f" in line {where.line + 1}" if where else ""
        what = getattr(error, "problem", None) or error
        raise InventoryError(f"{file}: is no valid YAML{line}: {what}; correct it") from error


def _check_quantity(field: str, value: str) -> None:
    try:
        quantity = Quantity.parse(value)
    except QuantityError as error:
        raise FieldError(field, value, 'write a quantity such as "64Gi"') from error
    if quantity < Quantity.of(0):
        raise FieldError(field, value, "write a quantity that is not negative")


def _cards(raw: Sequence[Any], file: str) -> tuple[tuple[Accelerator, ...], tuple[BrokenCard, ...]]:
    """The usable cards and the broken ones; of two with one UUID, the first is the usable one."""
    cards: dict[str, Accelerator] = {}
    broken: list[BrokenCard] = []
    for index, entry in enumerate(raw):
        try:
            card = convert(entry, Accelerator)
            if card.manufacturer not in MANUFACTURERS:
                raise FieldError("manufacturer", card.manufacturer, f"write one of {', '.join(MANUFACTURERS.ids())}")
            if card.uuid in cards:
                raise FieldError("uuid", card.uuid, "give each card its own; another card above has this one")
            cards[card.uuid] = card
        except FieldError as error:
            uuid = entry.get("uuid") if isinstance(entry, dict) else None
            broken.append(BrokenCard(file, index, uuid if isinstance(uuid, str) else "", error))
    return tuple(cards.values()), tuple(broken)
