"""What kubectl prints, as rows of cells, so that tables compare by what they say and not by how wide they are."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from gpustack_op.api.meta import Resource
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.paths import collection_path

Table = list[dict[str, str]]
"""One row an object: its cells by the header above them."""

EXPECTED: Final = Path(__file__).parent / "expected"
IGNORED: Final = frozenset({"AGE"})

AS_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
"""What kubectl asks the API server for: the server makes the cells, kubectl aligns them."""

_HEADER: Final = re.compile(r"\S+(?: \S+)*")
"""A header may hold single spaces; at least two lie between columns."""


def read_table(text: str) -> Table:
    """Cells stand below the beginning of their header. No text is a table without rows."""
    header, *rows = text.splitlines() or [""]
    columns = [(match.group(), match.start()) for match in _HEADER.finditer(header)]
    bounds = [*(start for _, start in columns), None]
    spans = [(name, slice(*span)) for (name, _), span in zip(columns, pairwise(bounds), strict=True)]
    return [{name: row[span].strip() for name, span in spans if name not in IGNORED} for row in rows]


def expected(state: str, kind: str) -> Table:
    """The table of one kind when the cluster is in one state, from `expected/`."""
    return read_table((EXPECTED / state / f"{kind}.txt").read_text())


async def served_table(client: Client, resource: Resource[Any]) -> Table:
    """What `kubectl get` would print, without the tenth of a second that kubectl takes to start."""
    answer = json.loads(await client.raw("GET", collection_path(resource), accept=AS_TABLE))
    columns = [(column["name"].upper(), column["priority"]) for column in answer["columnDefinitions"]]
    shown = [(index, name) for index, (name, priority) in enumerate(columns) if priority == 0 and name not in IGNORED]
    return [{name: _cell(row["cells"][index]) for index, name in shown} for row in answer["rows"]]


def _cell(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
