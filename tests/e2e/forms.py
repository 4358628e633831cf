"""Long tests have two forms: a short one for every run, and a full one that `hack/soak` asks for."""

from __future__ import annotations

import os
from typing import Final

FULL_VARIABLE: Final = "GPUSTACK_SOAK"


def is_full() -> bool:
    return bool(os.environ.get(FULL_VARIABLE))


def seconds(*, short: float, full: float) -> float:
    return full if is_full() else short


def times(*, short: int, full: int) -> int:
    return full if is_full() else short
