"""NVIDIA's cards, through the driver's own library.

Guarantees   A call that hangs or a card that is lost costs that card its health and nobody else anything. Before the
             library has answered once, its silence means that there are no cards; afterwards, that they are unhealthy.
Assumptions  The library tells of a card that has come back, or of a driver that was replaced, only after it has been
             closed and opened again.
Recovery     While anything is amiss the library is opened anew after 5 s, then 10, 20, 40 and every 60 s; not while a
             call hangs in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic

from gpustack_op.agent.daemon_thread import PATIENCE, DaemonThread
from gpustack_op.agent.detector.base import Detection, DetectionError, Host
from gpustack_op.agent.detector.card_watch import CardWatch
from gpustack_op.agent.detector.none import NoDetector
from gpustack_op.agent.detector.pci import is_plugged_in, is_virtual_windows
from gpustack_op.agent.nvml import inspection
from gpustack_op.agent.nvml.errors import OF_THE_DRIVER, Meaning, NvmlError
from gpustack_op.agent.nvml.instances import MigDriver
from gpustack_op.agent.nvml.library import Library
from gpustack_op.agent.nvml.readings import MANUFACTURER
from gpustack_op.agent.nvml.session import Session, open_session
from gpustack_op.agent.partitions.driver import Driver
from gpustack_op.agent.preflight import Finding
from gpustack_op.scheduling.device_groups import RawCard
from gpustack_op.scheduling.manufacturers import MANUFACTURERS


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds. `call` is what one call may take, `news` what a pass waits for cards that it knows already, `events`
    how long the library is asked for an event at a time."""

    call: float = PATIENCE
    news: float = 0.2
    events: float = 0.5
    first_retry: float = 5.0
    last_retry: float = 60.0


class NvidiaDetector:
    """`pci_check`: without a card on the bus the library is not even loaded."""

    def __init__(
        self,
        library: Path | None = None,
        *,
        root: Path = Path("/"),
        pci_check: bool = True,
        waits: Waits = Waits(),
    ) -> None:
        self._path = library
        self._library = Library(library)
        self._root = root
        self._kernel = NoDetector(root)
        self._pci_check = pci_check and not is_virtual_windows(root)
        self._waits = waits
        self._retries = Retries(waits)
        self._thread = DaemonThread("nvml")
        self._opening: Future[Session] | None = None
        self._session: Session | None = None
        self._refused: NvmlError | None = None
        self._known: set[str] = set()

    def host(self) -> Host:
        return self._kernel.host()

    def partition_drivers(self) -> Mapping[str, Driver]:
        return {MANUFACTURER: MigDriver(self._library)}

    def inspect(self) -> list[Finding]:
        return inspection.findings(Library(self._path), self._root)

    def detect(self) -> Detection:
        if self._session is None and self._pci_check and not is_plugged_in(self._root, _pci_vendors()):
            return self._nothing("")
        try:
            return self._collected(self._opened())
        except NvmlError as error:
            return self._nothing(str(error))

    def close(self) -> bool:
        """Whether the library could be let go: not while a call hangs in it."""
        if self._session is not None and self._session.close(replaced=False):
            self._session = None
        return self._session is None

    def _nothing(self, why: str) -> Detection:
        if self._known:
            raise DetectionError(f"the accelerators cannot be asked about: {why or 'they have left the PCI bus'}")
        return Detection(broken=(f"{MANUFACTURER}: {why}",) if why else ())

    # --- The library -------------------------------------------------------------------------------------------------

    def _opened(self) -> Session:
        """The present session, or a new one when it is time for that."""
        if self._session is not None and self._retries.are_due() and self._session.close(replaced=False):
            self._session = None
        if self._session is None:
            self._session = self._opened_anew()
        return self._session

    def _opened_anew(self) -> Session:
        if self._opening is None:
            if self._refused is not None and not self._retries.are_due():
                raise self._refused.again()
            self._opening = self._thread.run(self._open)
        try:
            hangs = self._thread.busy_for > self._waits.call
            session = self._opening.result(self._waits.news if hangs else self._waits.call)
        except TimeoutError:
            raise NvmlError("nvmlInit", 0, f"no answer within {self._waits.call:g} s") from None
        except Exception as error:
            refused = error if isinstance(error, NvmlError) else NvmlError("nvmlInit", 0, repr(error))
            self._opening, self._refused = None, refused
            self._retries.failed()
            self._library.close(replaced=refused.meaning is Meaning.MISMATCH)
            raise refused from error
        self._opening = self._refused = None
        return session

    def _open(self) -> Session:
        return open_session(self._library, self._root, limit=self._waits.call, events=self._waits.events)

    # --- The cards ---------------------------------------------------------------------------------------------------

    def _collected(self, session: Session) -> Detection:
        self._ask(session.cards)
        self._check_driver(session)
        sick = {uuid: f"the driver has told of Xid {xid}" for uuid, xid in session.xids.taken().items()}
        found = [_state(watch) for watch in session.cards]
        cards = tuple(_with_ailment(card, sick.get(card.uuid, "")) for card in found if isinstance(card, RawCard))
        self._known |= {card.uuid for card in cards}
        missing = self._known - {card.uuid for card in cards}
        self._retries.judge(amiss=bool(missing) or not cards or any(watch.error for watch in session.cards))
        if not session.cards:
            return self._nothing("the driver has no cards")
        return Detection(cards, tuple(card for card in found if isinstance(card, str)))

    def _ask(self, cards: Sequence[CardWatch]) -> None:
        """All at once; a new card is waited for, a known one only for as long as its news can wait."""
        begun = monotonic()
        for watch in cards:
            watch.ask()
        for watch in cards:
            until = begun + (self._waits.call if watch.is_new and not watch.hangs else self._waits.news)
            watch.wait(until - monotonic())

    def _check_driver(self, session: Session) -> None:
        """What is true of all cards ends the session."""
        for watch in session.cards:
            if isinstance(watch.error, NvmlError) and watch.error.meaning in OF_THE_DRIVER:
                self._retries.failed()
                self._refused = watch.error
                if session.close(replaced=watch.error.meaning is Meaning.MISMATCH):
                    self._session = None
                raise watch.error.again()


class Retries:
    """When something that is amiss is tried again: later each time, at once after a success."""

    def __init__(self, waits: Waits) -> None:
        self._waits = waits
        self._wait = waits.first_retry
        self._at: float | None = None

    def are_due(self) -> bool:
        return self._at is not None and monotonic() >= self._at

    def failed(self) -> None:
        if self._at is None or self.are_due():
            self._at = monotonic() + self._wait
            self._wait = min(2 * self._wait, self._waits.last_retry)

    def judge(self, *, amiss: bool) -> None:
        if amiss:
            self.failed()
        else:
            self._at, self._wait = None, self._waits.first_retry


def _pci_vendors() -> tuple[str, ...]:
    return MANUFACTURERS.pci_vendors([MANUFACTURER])


def _state(watch: CardWatch) -> RawCard | str:
    """The card; a sentence where nothing is known of it but that it is there."""
    why = f"it has not answered for {PATIENCE:g} s" if watch.hangs or watch.is_new else ""
    if watch.error is not None and not why:
        why = str(watch.error)
    if watch.last is None:
        return f"{MANUFACTURER} accelerator {watch.name}: {why}"
    return _with_ailment(watch.last, why)


def _with_ailment(card: RawCard, why: str) -> RawCard:
    return replace(card, healthy=False, ailment=why) if why else card
