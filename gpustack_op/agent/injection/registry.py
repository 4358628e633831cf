"""The injectors there are: one row for each manufacturer whose cards can be given out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpustack_op.agent.injection.base import Injector
from gpustack_op.agent.injection.nvidia import NvidiaInjector


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an injector may have to know of its node. `takes_cdi` is asked for each container."""

    state: Path
    takes_cdi: Callable[[], bool]


Row = Callable[[Surroundings], Injector]

INJECTORS: Mapping[str, Row] = {
    "nvidia": lambda where: NvidiaInjector(where.state, cdi=where.takes_cdi),
}
"""By manufacturer."""


def injectors(where: Surroundings, rows: Mapping[str, Row] = INJECTORS) -> dict[str, Injector]:
    return {manufacturer: make(where) for manufacturer, make in rows.items()}
