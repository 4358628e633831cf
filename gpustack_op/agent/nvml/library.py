"""NVIDIA's library, loaded and opened.

Guarantees   Every call either answers or raises an `NvmlError`. After a driver was replaced, `open` loads the library
             anew, since the old one cannot speak to it.
             It is not closed while somebody says that he is `using` it.
Assumptions  One library a process: the bindings keep it in a global. Opened and closed from one thread at a time.
Recovery     `close` and `open` again; whatever was got from the library before is then void.
"""

from __future__ import annotations

import _ctypes
import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pynvml

from gpustack_op.agent.daemon_thread import beat
from gpustack_op.agent.nvml.errors import Meaning, NvmlError

LIBRARY: Final = "libnvidia-ml.so.1"
"""Where the loader finds it unless a path is given: the driver, or the container runtime, puts it there."""

UNINITIALISED: Final = 1
LIBRARY_MISSING: Final = 12
"""The library's own codes for what we find out before it can."""

Handle = Any
"""A device, an instance or an event set, as the bindings give it."""


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    beat()
    try:
        return function(*arguments)
    except pynvml.NVMLError as error:
        raise NvmlError(function.__name__, error.value, str(error)) from error


def asked(function: Callable[..., Any], *arguments: Any) -> Any | None:
    """The answer, or None where the card does not have it."""
    try:
        return call(function, *arguments)
    except NvmlError as error:
        if error.meaning is Meaning.ABSENT:
            return None
        raise


class Library:
    """`path` names another file than the loader would find."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = str(path or LIBRARY)
        self._stale = False
        self._is_open = False
        self._users = 0
        self._lock = threading.Lock()

    @property
    def is_open(self) -> bool:
        return self._is_open

    def open(self) -> None:
        if self._is_open:
            return
        if self._stale:
            self._unload()
        self._load()
        try:
            call(pynvml.nvmlInitWithFlags, 0)
        except NvmlError as error:
            self._stale = self._stale or error.meaning is Meaning.MISMATCH
            raise
        self._is_open = True

    @contextmanager
    def using(self) -> Iterator[None]:
        with self._lock:
            if not self._is_open:
                raise NvmlError("nvmlInit", UNINITIALISED, "the library is not open")
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1

    def close(self, *, replaced: bool = False) -> bool:
        """False while somebody is using it. `replaced`: the driver is another one now."""
        with self._lock:
            if self._users:
                return False
            self._stale = self._stale or replaced
            was_open, self._is_open = self._is_open, False
        if was_open:
            with suppress(NvmlError):  # a driver that is gone cannot be told goodbye
                call(pynvml.nvmlShutdown)
        return True

    def _load(self) -> None:
        if pynvml.nvmlLib is not None and pynvml.nvmlLib._name == self._path:
            return
        self._unload()
        try:
            pynvml.nvmlLib = ctypes.CDLL(self._path)
        except OSError as error:
            raise NvmlError("dlopen", LIBRARY_MISSING, f"{self._path} cannot be loaded: {error}") from error

    def _unload(self) -> None:
        library, pynvml.nvmlLib = pynvml.nvmlLib, None
        pynvml._nvmlGetFunctionPointer_cache.clear()
        self._stale = False
        if library is not None:
            _ctypes.dlclose(library._handle)
