"""What was said Ready and does not show in the cache yet.

Guarantees   Cards that were promised count as promised from the moment the verdict is sent, also when its answer is
             lost; until the cache shows the verdict, or that the Workload has given its place up.
Assumptions  One judgement at a time.
Recovery     Nothing is stored: a new process has lists that are newer than every verdict before it.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gpustack_op.api.kueue import AdmissionCheckState, Workload
from gpustack_op.scheduling.names import NODE_DEVICES_CHECK
from gpustack_op.scheduling.promises import holds_cards, is_true


class UnseenVerdicts:
    def __init__(self) -> None:
        self._said: dict[str, Workload] = {}

    def remember(self, workload: Workload) -> None:
        """It is about to be told that it is Ready."""
        self._said[workload.uid] = with_state(workload, "Ready")

    def forget(self, uid: str) -> None:
        self._said.pop(uid, None)

    def overlaid(self, present: Iterable[Workload]) -> list[Workload]:
        """The Workloads of the cache, as they are after what was said."""
        shown = {workload.uid: workload for workload in present}
        for uid in [uid for uid in self._said if uid not in shown or _tells(shown[uid])]:
            del self._said[uid]
        return [self._said.get(uid, workload) for uid, workload in shown.items()]


def our_check(workload: Workload) -> AdmissionCheckState | None:
    checks = workload.status.admission_checks or ()
    return next((check for check in checks if check.name == NODE_DEVICES_CHECK), None)


def with_state(workload: Workload, state: str) -> Workload:
    """The Workload as if our check said this."""
    others = [c for c in workload.status.admission_checks or () if c.name != NODE_DEVICES_CHECK]
    checks = (*others, AdmissionCheckState(name=NODE_DEVICES_CHECK, state=state))
    return msgspec.structs.replace(workload, status=msgspec.structs.replace(workload.status, admission_checks=checks))


def _tells(workload: Workload) -> bool:
    """Whether the verdict shows, or can no longer come true."""
    if not is_true(workload, "QuotaReserved") or is_true(workload, "Evicted") or is_true(workload, "Finished"):
        return True
    return holds_cards(workload) or not workload.spec.active
