"""What the documents print is what the end-to-end tests expect of kubectl."""

from __future__ import annotations

from pathlib import Path

import pytest

DOCUMENTS = Path(__file__).parents[2]
EXPECTED = DOCUMENTS / "tests" / "e2e" / "expected"


@pytest.mark.parametrize(
    ("document", "state"),
    [
        ("README.md", "initial"),
        ("docs/getting-started.md", "initial"),
        ("docs/getting-started.md", "without-a10g"),
        ("docs/getting-started.md", "custom-type"),
        ("docs/getting-started.md", "cpu-aware"),
    ],
)
def test_a_document_shows_the_table_of_a_state(document: str, state: str) -> None:
    assert (EXPECTED / state / "instancetype.txt").read_text() in (DOCUMENTS / document).read_text()
