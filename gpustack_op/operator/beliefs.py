"""What a node's labels are taken to be while Node Feature Discovery restarts, lags or is away.

Guarantees   What our NodeFeatures say holds at once. A label that the Node has lost, or whose NodeFeature is gone, is
             still believed for the grace period, and after it only if the Node carries it.
Assumptions  NodeFeatures of the operator's namespace are the source; the Node's labels are their echo. An explicit
             value, such as an opt-out, is no absence and is never held back.
Recovery     The memory is the process's own. A new process believes NodeFeatures and Nodes as it finds them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Evidence:
    """`published` is what our NodeFeatures say, `complete` whether all exist, `echoed` what the Node carries."""

    published: Mapping[str, str]
    complete: bool
    echoed: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Belief:
    """`expires_in` is the time in seconds after which the same evidence will be believed no longer."""

    labels: Mapping[str, str]
    expires_in: float | None = None


@dataclass(slots=True)
class Beliefs:
    """Remembers, per node, what was published last and since when a label has lacked its echo."""

    clock: Callable[[], float]
    _published: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _doubted: dict[str, dict[str, float]] = field(default_factory=dict)

    def believe(self, node: str, evidence: Evidence, *, grace: float) -> Belief:
        """What to take for the node's labels now; `grace` in seconds."""
        candidates = self._candidates(node, evidence)
        doubted = self._doubts(node, candidates, evidence.echoed)
        now = self.clock()
        waits = {key: since + grace - now for key, since in doubted.items()}
        labels = {key: value for key, value in candidates.items() if waits.get(key, 1) > 0}
        return Belief(labels, min((wait for wait in waits.values() if wait > 0), default=None))

    def forget(self, node: str) -> None:
        """The Node object itself is gone: that is no doubt, but knowledge."""
        self._published.pop(node, None)
        self._doubted.pop(node, None)

    def _candidates(self, node: str, evidence: Evidence) -> Mapping[str, str]:
        if evidence.complete:
            self._published[node] = evidence.published
            return evidence.published
        return {**self._published.get(node, {}), **evidence.published}

    def _doubts(self, node: str, candidates: Mapping[str, str], echoed: Mapping[str, str]) -> dict[str, float]:
        before = self._doubted.get(node, {})
        now = self.clock()
        doubted = {key: before.get(key, now) for key, value in candidates.items() if echoed.get(key) != value}
        self._doubted[node] = doubted
        return doubted
