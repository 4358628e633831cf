"""What an agent's last report says, read back: the memory that outlives the agent.

Guarantees   Cards that another agent reported are never taken for our own: ours are those that our annotation names.
Recovery     Without the annotation, ours are the cards of the manufacturers that we have just detected. Their boot is
             then unknown, and an absent one waits for the next.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Final

from gpustack_op.agent import health
from gpustack_op.agent.roster import Known, Roster
from gpustack_op.api.worker import Card, DeviceGroup, Devices
from gpustack_op.scheduling import card_facts
from gpustack_op.scheduling.device_groups import RawCard

SEEN_IN_BOOT: Final = "gpustack.ai/seen-in-boot"
"""Annotation of Devices: for each card of ours the boot in which it was last seen, as JSON."""


def seen_in_boot(roster: Roster) -> str:
    return json.dumps({known.card.uuid: known.boot_id for known in roster}, sort_keys=True)


def recalled_roster(devices: Devices | None, detected: Collection[str]) -> Roster:
    """The cards that were reported, by index. `detected` are the manufacturers of the cards that are there now."""
    boots = _boots(devices.annotations.get(SEEN_IN_BOOT, "")) if devices else {}
    found = [
        (group.manufacturer, card.index, Known(_raw_card(group, card), boots.get(card.id, ""), _health(card)))
        for group in ((devices.spec.groups or ()) if devices else ())
        for card in group.accelerators or ()
        if (card.id in boots if boots else group.manufacturer in detected)
    ]
    return tuple(known for _, _, known in sorted(found, key=lambda entry: entry[:2]))


def _boots(annotation: str) -> Mapping[str, str]:
    try:
        boots = json.loads(annotation or "{}")
    except (ValueError, RecursionError):
        return {}
    return {card: str(boot) for card, boot in boots.items()} if isinstance(boots, dict) else {}


def _health(card: Card) -> health.Health:
    return health.recalled(unhealthy=card.status.unhealthy)


def _raw_card(group: DeviceGroup, card: Card) -> RawCard:
    """Readings that give the same group again. The memory is the recorded one, which nothing is added to any more."""
    topology, partitions = card.topology, card.status.physical_sliced
    return RawCard(
        manufacturer=group.manufacturer,
        uuid=card.id,
        name=group.name,
        minor=card.physical_indexes[0] if card.physical_indexes else None,
        pci_bus_id=topology.pci_bus_id if topology else "",
        numa_affinity=topology.numa_affinity if topology else "",
        cpu_affinity=topology.cpu_affinity if topology else "",
        memory_mib=group.memory,
        cores=group.cores,
        compute_capability=card_facts.capability(group.compute_capability),
        mig_mode=card.status.logical_sliced is None,
        profiles=(partitions.profiles or ()) if partitions else (),
        healthy=not card.status.unhealthy,
        driver_version=group.driver_version,
        cuda_driver_version=_cuda_integer(group.runtime_version),
    )


def _cuda_integer(version: str) -> int:
    """`13.0` as the driver's own 13000; 0 is unknown."""
    numbers = card_facts.capability(version)
    return numbers[0] * 1000 + numbers[1] * 10 if numbers else 0
