"""Whatever is true of one manufacturer alone stands in the table, or in modules of its own."""

from __future__ import annotations

import ast
from pathlib import Path

from gpustack_op.scheduling.manufacturers import MANUFACTURERS

PACKAGE = Path(__file__).parents[2] / "gpustack_op"

OWN = (
    "scheduling/manufacturers.py",
    "scheduling/presets.py",
    "agent/detector/registry.py",
    "agent/injection/registry.py",
)
"""The tables."""


def named(module: Path) -> list[str]:
    """The manufacturers whose id is a text in this module's code."""
    texts = [node.value for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.Constant)]
    return [text for text in texts if isinstance(text, str) and text in MANUFACTURERS]


def is_own(name: str) -> bool:
    """A table, a room of a manufacturer's library, or a module that bears the manufacturer's name."""
    return name in OWN or name.startswith("agent/nvml/") or Path(name).stem in MANUFACTURERS


def test_no_module_knows_a_manufacturer_but_its_own() -> None:
    modules = {module.relative_to(PACKAGE).as_posix(): module for module in PACKAGE.rglob("*.py")}
    offenders = {name: named(module) for name, module in modules.items() if not is_own(name) and named(module)}
    assert offenders == {}
