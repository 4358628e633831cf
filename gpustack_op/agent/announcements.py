"""Tells people about cards: in the log, and as Events on the Node.

Promises  each piece of news once: when it begins and when it ends, never again in between.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from gpustack_op.agent.roster import Known, Roster
from gpustack_op.api.core import NODES, Node
from gpustack_op.api.meta import Resource
from gpustack_op.runtime.event_objects import Type
from gpustack_op.runtime.logging import logger

log = logger("monitor")


class Recorder(Protocol):
    """The part of `runtime.events.Recorder` that is needed here."""

    def event(
        self, regarding: Node, type_: Type, reason: str, message: str, *, action: str, resource: Resource[Node]
    ) -> None: ...


class Announcements:
    def __init__(self, recorder: Recorder, node: Callable[[], Node | None]) -> None:
        self._recorder = recorder
        self._node = node
        self._problem = ""
        self._broken: frozenset[str] = frozenset()

    def asked(self, problem: str) -> None:
        """`problem` says why the machine could not be asked; empty when it could."""
        before, self._problem = self._problem, problem
        if problem and problem != before:
            log.error("detector.failing", error=problem)
            text = f"{problem}; every known accelerator counts as unhealthy"
            self._event("Warning", "DetectionFailed", text, "Detect")
        elif before and not problem:
            log.info("detector.recovered")
            self._event("Normal", "DetectionRecovered", "the accelerators can be asked about again", "Detect")

    def broken(self, sentences: Collection[str]) -> None:
        """The cards that are there and cannot be used."""
        before, self._broken = self._broken, frozenset(sentences)
        for sentence in sorted(self._broken - before):
            log.error("accelerator.broken", error=sentence)
            self._event("Warning", "AcceleratorBroken", f"{sentence}; it is not given out", "Detect")

    def changed(self, before: Roster, after: Roster) -> None:
        was, now = _by_id(before), _by_id(after)
        for card in was.keys() - now.keys():
            log.info("accelerator.forgotten", id=card)
        for card, known in now.items():
            self._told(card, was.get(card), known)

    def _told(self, card: str, before: Known | None, known: Known) -> None:
        sick, was_sick = known.health.unhealthy, before is not None and before.health.unhealthy
        if before is None:
            log.info("accelerator.found", id=card, product=known.card.name, healthy=not sick)
        if sick and not was_sick:
            why = known.card.ailment
            log.warning("accelerator.unhealthy", id=card, why=why or "unknown")
            reason = f": {why}" if why else ""
            text = f"accelerator {card} ({known.card.name}) is unhealthy or absent and is not given out{reason}"
            self._event("Warning", "AcceleratorUnhealthy", text, "Monitor")
        elif was_sick and not sick:
            log.info("accelerator.recovered", id=card)
            text = f"accelerator {card} ({known.card.name}) is healthy and is given out again"
            self._event("Normal", "AcceleratorRecovered", text, "Monitor")

    def _event(self, type_: Type, reason: str, message: str, action: str) -> None:
        node = self._node()
        if node is not None:
            self._recorder.event(node, type_, reason, message, action=action, resource=NODES)


def _by_id(roster: Roster) -> dict[str, Known]:
    return {known.card.uuid: known for known in roster}
