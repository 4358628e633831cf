"""Compiles the stand-in, once for each state of its source."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("library.c")

COMPILE = ("gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Wno-stringop-truncation", "-Wno-format-truncation")


def built() -> Path:
    """The compiled library, whose name ends as the driver's does."""
    version = hashlib.sha256(SOURCE.read_bytes() + repr(COMPILE).encode()).hexdigest()[:16]
    library = Path(tempfile.gettempdir()) / f"gpustack-mock-{os.getuid()}-{version}-libnvidia-ml.so.1"
    if not library.exists():
        aside = library.with_suffix(f".{os.getpid()}")
        subprocess.run([*COMPILE, "-o", aside, SOURCE], check=True)
        aside.rename(library)
    return library
