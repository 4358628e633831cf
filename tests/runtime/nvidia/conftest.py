from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest

from gpustack_op.agent.detector.nvidia import NvidiaDetector, Waits
from tests.nvml.library import built
from tests.nvml.machine import MockMachine
from tests.waiting import until

QUICK = Waits(call=0.3, news=0.3, events=0.02, first_retry=0.01, last_retry=0.01)


@pytest.fixture(scope="session")
def library() -> Path:
    return built()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MockMachine:
    """What the stand-in plays for this test."""
    folder = tmp_path / "machine"
    folder.mkdir()
    made = MockMachine(folder)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made


Detectors = Callable[[], NvidiaDetector]


@pytest.fixture
async def detectors(library: Path, machine: MockMachine, tmp_path: Path) -> AsyncIterator[Detectors]:
    """Makes detectors that wait for almost nothing, and lets the library go after the test."""
    made: list[NvidiaDetector] = []

    def make() -> NvidiaDetector:
        made.append(NvidiaDetector(library, root=tmp_path / "root", pci_check=False, waits=QUICK))
        return made[-1]

    yield make
    for detector in made:
        await until(partial(_closed, detector), every=0.02)


async def _closed(detector: NvidiaDetector) -> bool:
    return detector.close()


@pytest.fixture
def nvidia(detectors: Detectors) -> NvidiaDetector:
    return detectors()
