"""The containers of one Pod as they follow each other: what is to be started next, and what is known of each.

Guarantees   Plain init containers run to their end one after the other, sidecars are started among them and stay, app
             containers come when all that is done. What ends is started again as the restart policy says: the first
             time at once, then after delays that double.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from devcluster.containers.interface import State
from devcluster.kubelet.pods import Json, Pod, is_sidecar
from devcluster.kubelet.status import UNKNOWN, Known, Waiting, initialized, restarts

LONGEST_BACKOFF: Final = 300.0
"""Seconds."""

FORGIVEN: Final = 600.0
"""Seconds for which a container must have run to count as one that works."""


@dataclass(slots=True)
class _Backoff:
    delay: float = 0.0
    until: float = 0.0
    attempt: int = -1
    """The attempt whose end was last counted."""


@dataclass(slots=True)
class Lineup:
    """`backoff` is the first delay in seconds, `clock` the time since the epoch as the runtime tells it."""

    backoff: float
    clock: Callable[[], float]
    states: dict[str, list[State]] = field(default_factory=dict)
    waiting: dict[str, Waiting] = field(default_factory=dict)
    """Containers that could not be started, and why."""

    _backoffs: dict[str, _Backoff] = field(default_factory=dict)

    def update(self, states: Iterable[State]) -> None:
        found: dict[str, list[State]] = {}
        for state in sorted(states, key=lambda each: each.attempt):
            found.setdefault(state.container, []).append(state)
        self.states = found

    def known(self, container: str) -> Known:
        states = self.states.get(container, [])
        latest = states[-1] if states else None
        before = states[-2] if len(states) > 1 else None
        return Known(latest=latest, before=before, waiting=self.waiting.get(container))

    def next_attempt(self, container: str) -> int:
        latest = self.known(container).latest
        return 0 if latest is None else latest.attempt + 1

    def outdated(self) -> list[str]:
        """Attempts that nobody is told of any more."""
        return [state.id for states in self.states.values() for state in states[:-2]]

    @property
    def running(self) -> list[State]:
        return [state for states in self.states.values() for state in states if state.running]

    def to_start(self, pod: Pod) -> Iterator[Json]:
        """What should run and does not, as far as its turn has come."""
        known = {each["name"]: self.known(each["name"]) for each in pod.all_containers}
        begun = any(known[each["name"]].latest is not None for each in pod.containers)
        for container in pod.init_containers:
            present = known[container["name"]]
            if is_sidecar(container):
                if not present.running and self._may_start(pod, container, present):
                    yield container
                if present.latest is None and not begun:
                    return
            elif not begun and not present.succeeded:
                if not present.running and self._may_start(pod, container, present):
                    yield container
                return
        for container in pod.containers:
            present = known.get(container["name"], UNKNOWN)
            if not present.running and self._may_start(pod, container, present):
                yield container

    def is_finished(self, pod: Pod) -> bool:
        """Whether nothing but sidecars runs and nothing will be started again."""
        known = {each["name"]: self.known(each["name"]) for each in pod.all_containers}
        plain = [each for each in pod.init_containers if not is_sidecar(each)]
        if not initialized(pod, known):
            ends = [(each, known[each["name"]].ended) for each in plain]
            return any(state is not None and state.exit_code and not restarts(pod, each, state) for each, state in ends)
        apps = [(each, known[each["name"]].ended) for each in pod.containers]
        return all(state is not None and not restarts(pod, each, state) for each, state in apps)

    def next_look(self) -> float | None:
        """Seconds until a delay is over; None when none runs."""
        now = self.clock()
        left = [each.until - now for each in self._backoffs.values() if each.until > now]
        return min(left, default=None)

    def _may_start(self, pod: Pod, container: Json, present: Known) -> bool:
        if present.ended is None:
            return True
        if not restarts(pod, container, present.ended):
            return False
        return self._is_due(pod, container["name"], present.ended)

    def _is_due(self, pod: Pod, name: str, ended: State) -> bool:
        """Counts each end once, then says whether the delay after it is over."""
        backoff = self._backoffs.setdefault(name, _Backoff())
        if backoff.attempt != ended.attempt:
            backoff.attempt = ended.attempt
            worked = (ended.finished_at or 0.0) - ended.started_at >= FORGIVEN
            if worked or not backoff.until:
                # The first restart comes at once; the next pays for both.
                backoff.delay, backoff.until = 0.0, self.clock()
            else:
                backoff.delay = min(backoff.delay * 2 or self.backoff, LONGEST_BACKOFF)
                backoff.until = (ended.finished_at or self.clock()) + backoff.delay
        if self.clock() >= backoff.until:
            self.waiting.pop(name, None)
            return True
        told = f"container={name} pod={pod.name}_{pod.namespace}({pod.uid})"
        self.waiting[name] = Waiting("CrashLoopBackOff", f"back-off {backoff.delay:g}s restarting failed {told}")
        return False
