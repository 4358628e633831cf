"""SIGTERM and SIGINT as calls.

Guarantees   While the block runs, each of the two calls back with its name and does nothing else; afterwards they do
             what they did before.
Assumptions  The event loop runs in the main thread; in another one (a test's, say) signals stay what they were.
Recovery     None needed.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STOPPING = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stop_signals(callback: Callable[[str], None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    for number in STOPPING:
        loop.add_signal_handler(number, callback, number.name)
    try:
        yield
    finally:
        for number in STOPPING:
            loop.remove_signal_handler(number)
