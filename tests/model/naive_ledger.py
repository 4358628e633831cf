"""A second opinion on the account of a node's cards, as slow and as plain as can be.

It reads the objects as JSON, knows the rules from their description alone and shares no code with the product, so that
the same mistake would have to be made twice.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

WHOLE = 1_600_000
KEPT_AFTER_THE_POD_ENDED = ("metax", "cambricon")
ANNOTATION = "device.gpustack.ai/accelerator.allocated"


@dataclass
class NaiveCard:
    """What is known of one card after all Pods were looked at."""

    how: int = 0
    owners: list[tuple[str, str, int]] = field(default_factory=list)
    """Pod UID, container and units, one for each claim."""
    partitions: list[tuple[str, list[int]]] = field(default_factory=list)
    """Profile and the numbers of the memory slices it covers."""

    def left(self) -> int:
        taken = 0
        for _, _, units in self.owners:
            taken = taken + units
        return WHOLE - taken if taken < WHOLE else 0

    def covered(self) -> list[int]:
        numbers: list[int] = []
        for _, slices in self.partitions:
            numbers.extend(slices)
        return sorted(numbers)


def naive_ledger(groups: list[dict[str, Any]], pods: list[dict[str, Any]]) -> dict[str, NaiveCard]:
    """`groups` is `spec.groups` of Devices, `pods` the Pods of the node, the oldest first. By card id."""
    cards: dict[str, NaiveCard] = {}
    can_partition: dict[str, bool] = {}
    for group in groups:
        for card in group.get("accelerators", []):
            cards[card["id"]] = NaiveCard()
            physical = card.get("status", {}).get("physicalSliced") or {}
            can_partition[card["id"]] = physical.get("count", 0) > 0
    for pod in pods:
        for container, claim in _claims(pod):
            card_id = claim["id"]
            if card_id not in cards:
                continue
            is_partition = bool(claim.get("allocatedPhysicalProfile")) and bool(
                claim.get("allocatedPhysicalPlacements")
            )
            if is_partition and not can_partition[card_id]:
                continue
            if cards[card_id].how != 0 and cards[card_id].how != claim["mode"]:
                continue
            cards[card_id].how = claim["mode"]
            cards[card_id].owners.append((pod["metadata"]["uid"], container, claim.get("allocated", 0)))
            if is_partition:
                slices: list[int] = []
                for place in claim["allocatedPhysicalPlacements"]:
                    slices.extend(range(place.get("start", 0), place.get("start", 0) + place["length"]))
                cards[card_id].partitions.append((claim["allocatedPhysicalProfile"], slices))
    return cards


def naive_places(card: dict[str, Any], naive: NaiveCard) -> dict[str, int]:
    """How often each profile could still be placed; profiles that cannot are not named."""
    places: dict[str, int] = {}
    taken = set(naive.covered())
    for profile in (card.get("status", {}).get("physicalSliced") or {}).get("profiles", []):
        for place in profile.get("placements") or []:
            wanted = set(range(place.get("start", 0), place.get("start", 0) + place["length"]))
            if not wanted & taken:
                places[profile["name"]] = places.get(profile["name"], 0) + 1
    return places


def over_granted(cards: dict[str, NaiveCard]) -> list[str]:
    """The cards of which more is given than there is."""
    wrong = []
    for card_id, card in cards.items():
        owners = len(card.owners)
        too_much = [
            sum(units for _, _, units in card.owners) > WHOLE,
            card.how == 1 and owners > 1,
            card.how == 2 and owners > 10,
            len(card.covered()) != len(set(card.covered())),
        ]
        if any(too_much):
            wrong.append(card_id)
    return wrong


def _claims(pod: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Containers and what they hold now, by the name of the container."""
    text = pod["metadata"].get("annotations", {}).get(ANNOTATION)
    if text is None:
        return []
    try:
        record = json.loads(text)
    except ValueError:
        return []
    found: list[tuple[str, dict[str, Any]]] = []
    for container in sorted(record):
        for group in record[container]["devices"]["groups"]:
            held = [claim for claim in group["accelerators"] if not _is_over(pod, group["manufacturer"], claim)]
            found.extend((container, claim) for claim in held)
    return found


def _is_over(pod: dict[str, Any], manufacturer: str, claim: dict[str, Any]) -> bool:
    if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
        return False
    if claim.get("allocatedPhysicalProfile") or claim.get("allocatedPhysicalPlacements"):
        return False
    if claim["mode"] == 3:
        return manufacturer not in KEPT_AFTER_THE_POD_ENDED
    return claim["mode"] in (1, 2)
