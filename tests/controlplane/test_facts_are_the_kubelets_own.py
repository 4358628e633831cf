"""The facts that our protocol files are compared with, beside the kubelet's files in Go's module cache."""

from __future__ import annotations

import json
from pathlib import Path

from devcluster.go import provide
from devcluster.protocols import kubelet_facts


def test_the_kubelet_of_this_kubernetes_says_the_same() -> None:
    recorded = Path(__file__).parents[1] / "unit" / "kubelet_facts.json"
    assert json.loads(recorded.read_text()) == kubelet_facts(provide())
