"""Errors that NVIDIA's driver tells of by itself: Xids.

Guarantees   Each Xid is told once, by the card. Those that a faulty application causes on a sound card are not told.
Assumptions  Without events the cards' counters are all there is: a driver that has none is no error.
Recovery     The thread ends when the driver does; a new one is made with the library's next opening.
"""

from __future__ import annotations

import queue
import threading
from typing import Any, Final

import pynvml

from gpustack_op.agent.nvml.errors import Meaning, NvmlError
from gpustack_op.agent.nvml.library import Handle, call
from gpustack_op.runtime.logging import logger

OF_APPLICATIONS: Final = frozenset({13, 31, 43, 45, 68, 109})
"""Xids that say nothing about the card: exceptions, page faults, resets and time-outs of one program's channel."""

XID: Final = pynvml.nvmlEventTypeXidCriticalError

log = logger("nvml")


class XidWatch:
    """Made when the library has been opened; ends with `close`, for which it looks every `patience` seconds."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._cards: dict[int, str] = {}
        self._new: queue.SimpleQueue[tuple[str, Handle]] = queue.SimpleQueue()
        self._found: dict[str, int] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="xids", daemon=True)
        self._thread.start()

    def add(self, uuid: str, handle: Handle) -> None:
        """From now on this card's Xids are heard."""
        self._new.put((uuid, handle))

    def taken(self) -> dict[str, int]:
        """The last Xid of each card that had one since the last call."""
        with self._lock:
            found, self._found = self._found, {}
        return found

    def close(self) -> bool:
        """Whether the thread has ended: only then may the library be closed."""
        self._ended.set()
        self._thread.join(4 * self._patience)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            events = call(pynvml.nvmlEventSetCreate)
            while not self._ended.is_set():
                self._register(events)
                self._wait(events)
            call(pynvml.nvmlEventSetFree, events)
        except NvmlError as error:
            log.info("xids.unavailable", error=str(error))

    def _register(self, events: Any) -> None:
        """In this thread, since nobody says that a set may be waited for and added to at once."""
        while not self._new.empty():
            uuid, handle = self._new.get()
            try:
                if call(pynvml.nvmlDeviceGetSupportedEventTypes, handle) & XID:
                    call(pynvml.nvmlDeviceRegisterEvents, handle, XID, events)
                    self._cards[_address(handle)] = uuid
            except NvmlError as error:
                log.info("xids.unavailable", id=uuid, error=str(error))

    def _wait(self, events: Any) -> None:
        try:
            event = call(pynvml.nvmlEventSetWait_v2, events, int(1000 * self._patience))
        except NvmlError as error:
            if error.meaning is Meaning.NOTHING:
                return
            raise
        self._heard(_address(event.device), event.eventData)

    def _heard(self, address: int, xid: int) -> None:
        """An event that names no card of ours may be about any of them."""
        known = self._cards.get(address)
        counts = xid not in OF_APPLICATIONS
        log.warning("accelerator.xid", id=known or "unknown", xid=xid, counts=counts)
        if counts:
            with self._lock:
                self._found |= dict.fromkeys([known] if known else self._cards.values(), xid)


def _address(handle: Any) -> int:
    return int(pynvml.cast(handle, pynvml.c_void_p).value or 0)
