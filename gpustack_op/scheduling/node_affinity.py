"""Required node affinity as plain JSON: terms are alternatives, so what must hold is joined to each of them.

Promises  Nothing that was required before is given up, and nothing is required twice. A term without expressions and
          fields, and a selector without terms, match no node: they stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def expression(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, "values": list(values)}


def requiring(affinity: Mapping[str, Any] | None, expressions: Sequence[Json]) -> Json:
    """An affinity that demands these, too."""
    affinity = affinity or {}
    node = affinity.get("nodeAffinity") or {}
    selector = node.get(REQUIRED)
    if selector is None:
        terms: list[Json] = [{"matchExpressions": list(expressions)}]
    else:
        terms = [_joined(term, expressions) for term in selector.get("nodeSelectorTerms") or ()]
    return {**affinity, "nodeAffinity": {**node, REQUIRED: {**(selector or {}), "nodeSelectorTerms": terms}}}


def _joined(term: Json, expressions: Sequence[Json]) -> Json:
    present = term.get("matchExpressions") or []
    if not present and not term.get("matchFields"):
        return term
    return {**term, "matchExpressions": [*present, *(each for each in expressions if each not in present)]}
