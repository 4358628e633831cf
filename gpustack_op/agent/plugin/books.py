"""The state of the node's cards as this process knows it: inventory, Pods, what is in flight, and the kubelet's doubts.

Guarantees   `standing` is computed whole each time it is asked for; nothing is counted on. It is None as long as either
             the cards or the Pods are not known, and then nothing is given out.
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

    def claims(self, pods: Iterable[Pod] | None = None) -> list[PodClaim]:
        """With what is in flight."""
        return self.reservations.over(map(claim_of, self.pods.pods() if pods is None else pods))

    def record_of(self, pod: Pod, container: str) -> ContainerRecord | None:
        """What the container holds but for what is in flight: what is owed to it, else what its Pod says."""
        owed = self.reservations.owed.get((pod.uid, container))
        if owed is not None:
            return owed.record
        known = next((each for each in self.pods.pods() if each.uid == pod.uid), pod)
        return claim_of(known).record.get(container)

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
