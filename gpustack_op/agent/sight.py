"""What an agent knows of its machine at one moment, and how a pass over the cards changes it.

Guarantees   Nothing is known before the cards have been asked about once or a former report recalled: absence is not
             told before it is known. A manufacturer once ours stays ours, so that what we no longer state is removed.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpustack_op.agent import roster as rosters
from gpustack_op.agent.detector.base import Detection, Host
from gpustack_op.agent.recall import recalled_roster
from gpustack_op.agent.roster import Pass, Roster
from gpustack_op.api.worker import Devices


@dataclass(frozen=True, slots=True)
class Sight:
    host: Host | None
    roster: Roster = ()
    manufacturers: frozenset[str] = frozenset()
    """Whose groups are ours to state."""


@dataclass(frozen=True, slots=True)
class Look:
    """One pass: None stands for what could not be asked."""

    host: Host | None
    detection: Detection | None


def next_sight(before: Sight | None, look: Look, made: Pass, report: Devices | None) -> Sight | None:
    """The sight after a look; None while too little is known. `report` is what a former agent left."""
    host = look.host or (before.host if before else None)
    cards = look.detection.cards if look.detection else ()
    present = frozenset(card.manufacturer for card in cards)
    roster = before.roster if before else recalled_roster(report, present)
    if before is None and look.detection is None and not roster:
        return None
    ours = before.manufacturers if before else frozenset(known.card.manufacturer for known in roster)
    roster = rosters.detected(roster, cards, made) if look.detection else rosters.unmeasured(roster)
    return Sight(host, roster, ours | present)
