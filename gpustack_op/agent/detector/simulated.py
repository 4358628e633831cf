"""A machine that exists in an inventory file only, for demonstrations and tests.

Guarantees   The file is read again as soon as it changes on disk, so that a person can pull or break a card. A file
             that cannot be used is a `DetectionError`. A change counts once it looks the same at two calls in a row,
             so that a file caught half-written pulls no card.
Assumptions  A change moves the file's inode, size or change time.
"""

from __future__ import annotations

import os
from pathlib import Path

from gpustack_op.agent import inventory
from gpustack_op.agent.detector.base import Detection, DetectionError, Host
from gpustack_op.agent.inventory import Accelerator, Driver, InventoryError, Machine
from gpustack_op.scheduling import card_facts
from gpustack_op.scheduling.device_groups import RawCard

Stamp = tuple[int, int, int]


class SimulatedDetector:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: Stamp | None = None
        self._used: Stamp | None = None
        self._machine: Machine | None = None
        self._error: InventoryError | None = None

    def detect(self) -> Detection:
        self._look()
        machine = self._answer()
        cards = tuple(raw_card(card, machine.driver) for card in machine.accelerators)
        return Detection(cards, tuple(str(broken) for broken in machine.broken))

    def host(self) -> Host:
        machine = self._answer()
        return Host(machine.cpu, machine.boot_id)

    def _answer(self) -> Machine:
        if self._machine is None and self._error is None:
            self._read(_stamp(self._path))
        if self._machine is None or self._error is not None:
            raise DetectionError(str(self._error)) from self._error
        return self._machine

    def _look(self) -> None:
        stamp = _stamp(self._path)
        settled, self._seen = stamp == self._seen, stamp
        if settled and stamp != self._used:
            self._read(stamp)

    def _read(self, stamp: Stamp | None) -> None:
        self._seen = self._used = stamp
        try:
            self._machine, self._error = inventory.load(self._path), None
        except InventoryError as error:
            self._error = error


def raw_card(card: Accelerator, driver: Driver) -> RawCard:
    return RawCard(
        manufacturer=card.manufacturer,
        uuid=card.uuid,
        name=card.name,
        minor=card.minor,
        pci_bus_id=card.pci_bus_id,
        numa_affinity=card.numa_affinity,
        cpu_affinity=card.cpu_affinity,
        memory_mib=card.memory_mib,
        bus_width=card.bus_width,
        ecc_enabled=card.ecc_enabled,
        cores=card.cores,
        compute_capability=card_facts.capability(card.compute_capability or ""),
        mig_mode=card.mig_mode is True,
        healthy=card.healthy,
        driver_version=driver.version,
        cuda_driver_version=driver.cuda,
    )


def _stamp(path: Path) -> Stamp | None:
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_ino, facts.st_size, facts.st_ctime_ns
