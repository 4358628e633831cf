"""One keeper for each manufacturer whose cards the detector can partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from gpustack_op.agent.partitions.driver import partition_drivers
from gpustack_op.agent.partitions.keeper import Cards, Keeper
from gpustack_op.agent.partitions.markers import Markers
from gpustack_op.agent.partitions.materialise import Workbench
from gpustack_op.agent.partitions.world import World, world_of
from gpustack_op.agent.sight import Sight
from gpustack_op.scheduling.claims import PodClaim
from gpustack_op.scheduling.manufacturers import MANUFACTURERS, Manufacturers

PODS = "pods"
"""Folder of the state folder that has one for each Pod."""


def keepers(
    detector: object,
    sight: Callable[[], Sight | None],
    claims: Callable[[], Iterable[PodClaim] | None],
    state: Path,
    *,
    on_lost: Callable[[], None] = lambda: None,
    manufacturers: Manufacturers = MANUFACTURERS,
) -> dict[str, Keeper]:
    """By manufacturer. `claims` are those of the node's Pods, None as long as they are not known."""

    def boot_id() -> str:
        seen = sight()
        return seen.host.boot_id if seen and seen.host else ""

    def world() -> World | None:
        known = claims()
        return None if known is None else world_of(known)

    made = {}
    for manufacturer, driver in partition_drivers(detector).items():
        row = manufacturers.get(manufacturer)
        kind = f"{manufacturer}-{row.partition_kind if row else ''}"
        bench = Workbench(driver, Markers(state / PODS, kind), boot_id)
        made[manufacturer] = Keeper(bench, _cards(sight, manufacturer), world, on_lost=on_lost)
    return made


def _cards(sight: Callable[[], Sight | None], manufacturer: str) -> Callable[[], Cards]:
    def cards() -> Cards:
        seen = sight()
        return {
            known.card.uuid: known.card.profiles
            for known in (seen.roster if seen else ())
            if known.card.manufacturer == manufacturer and known.card.profiles and not known.health.unhealthy
        }

    return cards
