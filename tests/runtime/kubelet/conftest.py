from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.runtime.kubelet.bench import Bench
from tests.runtime.kubelet.stand import Stand


@pytest.fixture
async def simulated() -> AsyncIterator[Stand]:
    """Started. Its folder has a short name, as a socket's path needs."""
    with tempfile.TemporaryDirectory(prefix="gpk-") as folder:
        made = Stand(Path(folder))
        await made.start()
        yield made
        await made.close()


@pytest.fixture
async def bench(simulated: Stand) -> Bench:
    """What the real kubelet is tested by, too."""
    return simulated
