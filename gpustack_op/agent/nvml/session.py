"""The time between opening NVIDIA's library and closing it: its cards, each watched in a thread of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pynvml

from gpustack_op.agent.detector.card_watch import CardWatch
from gpustack_op.agent.nvml.events import XidWatch
from gpustack_op.agent.nvml.library import Handle, Library, call
from gpustack_op.agent.nvml.readings import Driver, ailment, driver, mig_mode, read_card
from gpustack_op.scheduling.device_groups import RawCard


class CardReader:
    """Reads one card: everything at first and when its mode has changed, else only what moves by itself."""

    def __init__(self, number: int, of: Driver, root: Path, xids: XidWatch) -> None:
        self._number = number
        self._driver = of
        self._root = root
        self._xids = xids
        self._handle: Handle | None = None
        self._whole: RawCard | None = None

    def __call__(self) -> RawCard:
        if self._handle is None:
            self._handle = call(pynvml.nvmlDeviceGetHandleByIndex, self._number)
        if self._whole is None or mig_mode(self._handle) != self._whole.mig_mode:
            self._read(self._handle, is_first=self._whole is None)
        why = ailment(self._handle)
        assert self._whole is not None
        return replace(self._whole, healthy=False, ailment=why) if why else self._whole

    def _read(self, handle: Handle, *, is_first: bool) -> None:
        self._whole = read_card(handle, self._driver, self._root)
        if is_first:
            self._xids.add(self._whole.uuid, handle)


@dataclass(frozen=True, slots=True)
class Session:
    library: Library
    cards: tuple[CardWatch, ...]
    xids: XidWatch

    def close(self, *, replaced: bool) -> bool:
        """Whether it could be: never under a call."""
        if (
            any(card.is_busy for card in self.cards)
            or not self.xids.close()
            or not self.library.close(replaced=replaced)
        ):
            return False
        for card in self.cards:
            card.close()
        return True


def open_session(library: Library, root: Path, *, limit: float, events: float) -> Session:
    """`limit` is what a call may take, `events` how long one waits for an event; seconds."""
    library.open()
    of, count, xids = driver(), call(pynvml.nvmlDeviceGetCount), XidWatch(events)
    cards = tuple(CardWatch(str(number), CardReader(number, of, root, xids), limit=limit) for number in range(count))
    return Session(library, cards, xids)
