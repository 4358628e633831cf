"""The state of the node's cards as this process knows it: inventory, Pods, what is in flight, and the kubelet's doubts.

Guarantees   `standing` is computed whole, nothing is counted on; `told` once for each piece of news. Both are None as
             long as either the cards or the Pods are not known, and then nothing is given out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from gpustack_op.agent.plugin.health import Standing
from gpustack_op.agent.plugin.news import News
from gpustack_op.agent.plugin.pod_book import PodBook
from gpustack_op.agent.plugin.reservations import Reservations
from gpustack_op.agent.plugin.verification import Disagreement, withheld
from gpustack_op.api.core import Pod
from gpustack_op.api.worker import DeviceGroup
from gpustack_op.scheduling.claims import PodClaim, claim_of
from gpustack_op.scheduling.ledger import rebuilt
from gpustack_op.scheduling.manufacturers import MANUFACTURERS, Manufacturers
from gpustack_op.scheduling.records import ContainerRecord

Groups = Callable[[], Sequence[DeviceGroup] | None]
"""The node's cards; None as long as they are not known."""

REMEMBERED = 1024
"""Pods whose records are kept as they were read; a node runs a tenth of that."""


class Books:
    def __init__(
        self,
        groups: Groups,
        pods: PodBook,
        *,
        manufacturers: Manufacturers = MANUFACTURERS,
        reservations: Reservations | None = None,
    ) -> None:
        self.groups = groups
        self.pods = pods
        self.manufacturers = manufacturers
        self.reservations = reservations or Reservations()
        self.disagreements: Sequence[Disagreement] = ()
        self.news = News()
        self._read: dict[str, tuple[Pod, PodClaim]] = {}
        self._told: tuple[int, Standing | None] | None = None

    def claims(self, pods: Iterable[Pod] | None = None) -> list[PodClaim]:
        """With what is in flight."""
        return self.reservations.over(map(self._claim, self.pods.pods() if pods is None else pods))

    def _claim(self, pod: Pod) -> PodClaim:
        """Records are read once for each version of a Pod."""
        known = self._read.get(pod.uid)
        if known is None or known[0] is not pod:
            if len(self._read) >= REMEMBERED:
                self._read.clear()
            known = self._read[pod.uid] = pod, claim_of(pod)
        return known[1]

    def record_of(self, pod: Pod, container: str) -> ContainerRecord | None:
        """What the container holds but for what is in flight: what is owed to it, else what its Pod says."""
        owed = self.reservations.owed.get((pod.uid, container))
        if owed is not None:
            return owed.record
        known = next((each for each in self.pods.pods() if each.uid == pod.uid), pod)
        return claim_of(known).record.get(container)

    def told(self) -> Standing | None:
        """The standing as of the last news, for all who tell of it."""
        if self._told is None or self._told[0] != self.news.number:
            self._told = self.news.number, self.standing()
        return self._told[1]

    def standing(self) -> Standing | None:
        groups = self.groups()
        if groups is None or not self.pods.ready:
            return None
        claims = self.claims()
        return Standing(
            groups=groups,
            claims=claims,
            ledger=rebuilt(groups, claims, self.manufacturers),
            withheld=withheld(self.disagreements),
        )
