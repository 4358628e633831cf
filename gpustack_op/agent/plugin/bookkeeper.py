"""Keeps the node's books right: what is owed is paid, what disagrees with the kubelet is put right, the ledger follows.

Owns      the records of this node's Pods, of which it takes back what was promised in vain and puts right what the
          kubelet says otherwise; the ledger it hands to the reporter.
Never     removes what the kubelet merely does not mention; writes a record that the kubelet's ids do not give.
Woken by  the reporter, with each of its passes.
Promises  what is owed is tried in every pass until it lands or the Pod is gone; a card whose record disagrees is
          withheld, and no other; what begins to fail is told once, and once when it works again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpustack_op.agent.plugin.books import Books
from gpustack_op.agent.plugin.finder import Kubelet
from gpustack_op.agent.plugin.instruments import Instruments
from gpustack_op.agent.plugin.kubelet import KubeletError, Report
from gpustack_op.agent.plugin.record_writer import RecordWriter
from gpustack_op.agent.plugin.verification import Disagreement, disagreements
from gpustack_op.api.core import Pod
from gpustack_op.api.worker import LedgerGroup
from gpustack_op.runtime.errors import NETWORK_ERRORS, ApiError, Conflict, NotFound
from gpustack_op.runtime.logging import logger
from gpustack_op.scheduling.claims import Holder, claim_of
from gpustack_op.scheduling.records import Record

log = logger("ledger")

Tell = Callable[[Pod, str], None]
"""An Event for a Pod whose record was put right."""


class Bookkeeper:
    def __init__(
        self,
        books: Books,
        kubelet: Kubelet,
        writer: RecordWriter,
        instruments: Instruments,
        *,
        is_active: Callable[[], bool] = lambda: True,
        tell: Tell = lambda _pod, _sentence: None,
    ) -> None:
        self._books = books
        self._kubelet = kubelet
        self._writer = writer
        self._instruments = instruments
        self._is_active = is_active
        self._tell = tell
        self._problem = ""
        self._complaints: frozenset[str] = frozenset()

    async def settle(self) -> Sequence[LedgerGroup] | None:
        """One pass; the ledger, None as long as too little is known or another agent is the active one."""
        if not self._is_active() or self._books.groups() is None or not self._books.pods.ready:
            return None
        await self._pay()
        self._books.reservations.prune(map(claim_of, self._books.pods.pods()))
        await self._verify()
        standing = self._books.standing()
        if standing is None:
            return None
        ledger = standing.ledger
        self._complain(
            [claim.unreadable for claim in standing.claims if claim.unreadable]
            + [left_out.sentence for left_out in (*ledger.conflicts, *ledger.unknown)]
            + [one.sentence for one in self._books.disagreements]
        )
        left_out = len(ledger.conflicts) + len(ledger.unknown)
        self._instruments.drift(kubelet=len(self._books.disagreements), inventory=left_out)
        self._instruments.stands(standing)
        self._books.news.tell()
        return ledger.groups

    async def _pay(self) -> None:
        pods = {pod.uid: pod for pod in self._books.pods.pods()}
        for holder, owed in list(self._books.reservations.owed.items()):
            pod = pods.get(holder[0])
            if pod is None:
                continue
            if await self._written(pod, self._record_with(pod)):
                if self._books.reservations.owed.get(holder) is owed:
                    self._books.reservations.paid(holder)
                log.info("ledger.given_back", pod=f"{pod.namespace}/{pod.name}", container=holder[1])

    def _record_with(self, pod: Pod) -> Record:
        return self._books.claims([pod])[0].record

    async def _verify(self) -> None:
        report = await self._report()
        if report is None:
            return
        found = self._compared(report)
        for one in found:
            await self._put_right(one)
        self._books.disagreements = self._compared(report) if found else ()

    def _compared(self, report: Report) -> list[Disagreement]:
        groups, pods = self._books.groups() or (), self._books.pods.pods()
        return disagreements(groups, pods, self._books.claims(pods), report, self._books.manufacturers)

    async def _put_right(self, one: Disagreement) -> None:
        if one.right is None or one.holder is None or self._books.reservations.holds(one.holder):
            return  # what is in flight is about to agree
        pod = next((each for each in self._books.pods.pods() if each.uid == one.holder[0]), None)
        if pod is None:
            return
        record = {**self._record_with(pod), one.holder[1]: one.right}
        if await self._written(pod, record):
            self._reserve(one.holder, record)
            log.warning("ledger.put_right", pod="/".join(one.pod), container=one.container, why=one.reason)
            self._tell(pod, f"container {one.container}: {one.reason}; the record now says the same")

    def _reserve(self, holder: Holder, record: Record) -> None:
        """Until the cache shows it."""
        self._books.reservations.reserve(holder, record[holder[1]])

    async def _written(self, pod: Pod, record: Record) -> bool:
        try:
            await self._writer.write(pod.namespace, pod.name, pod.uid, record, once=True)
        except (NotFound, Conflict):
            return True  # the Pod is gone, and all it held with it
        except (ApiError, *NETWORK_ERRORS) as error:
            log.warning("ledger.unwritten", pod=f"{pod.namespace}/{pod.name}", error=str(error))
            return False
        return True

    async def _report(self) -> Report | None:
        try:
            report = await self._kubelet.report()
        except KubeletError as error:
            if not self._problem:
                log.warning("kubelet.unreachable", error=str(error))
            self._problem = str(error)
            return None
        if self._problem:
            log.info("kubelet.answers")
            self._problem = ""
        return report

    def _complain(self, sentences: Sequence[str]) -> None:
        for sentence in sorted(set(sentences) - self._complaints):
            log.error("ledger.left_out", why=sentence)
        self._complaints = frozenset(sentences)
