"""What this process has given out, or has to take back, and the cluster does not show yet.

Guarantees   A reservation outlives everything but its landing in the Pod's record, or the end of its Pod. A give-back
             that could not be written is not forgotten before it was, or the Pod is gone. Together they lie over the
             Pods' records, see `claims.overlaid`.
Assumptions  Used from one event loop. All of it may be lost with the process: the records are what lasts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gpustack_op.runtime.clock import elapsed
from gpustack_op.scheduling.claims import Holder, Overlay, PodClaim, overlaid
from gpustack_op.scheduling.records import ContainerRecord

UNSEEN = 60.0
"""Seconds after which a Pod that no cache has shown is taken for gone."""


@dataclass(frozen=True, slots=True)
class Owed:
    """A record that has to be put back to what it was: None for nothing."""

    namespace: str
    pod: str
    record: ContainerRecord | None


class Reservations:
    """`clock` gives seconds that never jump."""

    def __init__(self, clock: Callable[[], float] = elapsed) -> None:
        self._clock = clock
        self._reserved: dict[Holder, ContainerRecord | None] = {}
        self._since: dict[Holder, float] = {}
        self._seen: set[str] = set()
        self.owed: dict[Holder, Owed] = {}

    def reserve(self, holder: Holder, record: ContainerRecord) -> None:
        self._reserved[holder] = record
        self._since.setdefault(holder, self._clock())

    def hide(self, holder: Holder) -> None:
        """What this container's record says no longer counts: another container of its Pod has taken it over."""
        self._reserved[holder] = None
        self._since.setdefault(holder, self._clock())

    def of(self, holder: Holder) -> ContainerRecord | None:
        return self._reserved.get(holder)

    def release(self, holder: Holder, *, back_to: ContainerRecord | None = None, was_reserved: bool = False) -> None:
        """As it was before; an earlier reservation is put back."""
        self._reserved.pop(holder, None)
        self._since.pop(holder, None)
        if was_reserved:
            self._reserved[holder] = back_to
            self._since[holder] = self._clock()

    def owe(self, holder: Holder, owed: Owed) -> None:
        self.owed[holder] = owed

    def paid(self, holder: Holder) -> None:
        self.owed.pop(holder, None)

    def holds(self, holder: Holder) -> bool:
        return holder in self._reserved

    def over(self, claims: Iterable[PodClaim]) -> list[PodClaim]:
        """These Pods with what is in flight."""
        pending: Overlay = {holder: owed.record for holder, owed in self.owed.items()}
        return overlaid(claims, self._reserved, pending)

    def prune(self, claims: Iterable[PodClaim]) -> None:
        """Drops what has landed, and what belongs to Pods that are gone. `claims` are the Pods' own records."""
        present = {claim.uid: claim for claim in claims}
        self._seen &= {uid for uid, _container in (*self._reserved, *self.owed)} | set(present)
        for holder, record in list(self._reserved.items()):
            claim = present.get(holder[0])
            has_landed = claim is not None and not claim.unreadable and claim.record.get(holder[1]) == record
            if has_landed or (claim is None and self._is_gone(holder)):
                self.release(holder)
        for holder in [holder for holder in self.owed if holder[0] not in present and self._is_gone(holder)]:
            self.paid(holder)
        self._seen |= set(present)

    def _is_gone(self, holder: Holder) -> bool:
        """A Pod may be served before any cache has shown it."""
        return holder[0] in self._seen or self._clock() - self._since.get(holder, 0.0) > UNSEEN
