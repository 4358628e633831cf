from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"\btest_\w+")


def test_every_test_that_the_page_names_is_there() -> None:
    files = list((ROOT / "tests").rglob("test_*.py"))
    defined = {name for file in files for name in re.findall(r"def (test_\w+)", file.read_text())}
    named = set(NAMED.findall((ROOT / "docs" / "framework.md").read_text()))
    assert named
    assert named - defined - {file.stem for file in files} == set()
