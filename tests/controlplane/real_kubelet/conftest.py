from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from devcluster.compile import Progress
from devcluster.oracle import oracle
from tests.controlplane.real_kubelet.oracle import RealKubelet
from tests.runtime.kubelet.bench import Bench


@pytest.fixture(scope="session")
def program() -> Path:
    return oracle(Progress())


@pytest.fixture
async def bench(program: Path) -> AsyncIterator[Bench]:
    with tempfile.TemporaryDirectory(prefix="gpk-") as folder:
        made = RealKubelet(Path(folder), program)
        await made.start()
        yield made
        await made.close()
