"""What is said of the simulated kubelet's devices, asked of the real one's device manager.

Each test that knows its kubelet only as a `bench` runs here too: the plugins' calls, capacities, errors and the
checkpoint must be the same. If one fails here and not there, the simulation is wrong.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from tests.runtime.kubelet import (
    test_checkpoints_survive_restarts,
    test_devices_are_given_out_as_by_a_real_kubelet,
    test_lists_of_devices_are_taken_as_they_come,
    test_plugins_register_as_with_a_real_kubelet,
)


def of_any_kubelet(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """Its tests that ask for a bench."""
    tests = {name: value for name, value in vars(module).items() if name.startswith("test_") and callable(value)}
    return {name: test for name, test in tests.items() if "bench" in inspect.signature(test).parameters}


globals().update(of_any_kubelet(test_plugins_register_as_with_a_real_kubelet))
globals().update(of_any_kubelet(test_lists_of_devices_are_taken_as_they_come))
globals().update(of_any_kubelet(test_devices_are_given_out_as_by_a_real_kubelet))
globals().update(of_any_kubelet(test_checkpoints_survive_restarts))
