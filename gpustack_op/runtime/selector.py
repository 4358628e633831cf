"""Which objects of a kind somebody wants.

Guarantees   `matches` decides like the API server for every label selector, and for field selectors on plain fields.
Assumptions  The text is valid: the API server has accepted it, or will refuse it.
Recovery     A wrong guess on an unusual field is corrected by the watch, which is filtered by the server itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Selector:
    """Label and field selectors are written as in the API (`a=b,c in (d,e),!f` and `spec.nodeName=n`)."""

    labels: str = ""
    fields: str = ""
    namespace: str = ""

    @property
    def query(self) -> dict[str, str]:
        """As the API server wants to be asked."""
        asked = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {key: value for key, value in asked.items() if value}

    def matches(self, content: Mapping[str, Any]) -> bool:
        """Whether this object, as decoded JSON, is wanted."""
        metadata = content.get("metadata") or {}
        return (
            self.namespace in ("", metadata.get("namespace"))
            and _labels_match(self.labels, metadata.get("labels") or {})
            and _fields_match(self.fields, content)
        )


EVERYTHING: Final = Selector()

_REQUIREMENT: Final = re.compile(
    r"\s*(?:"
    r"(?P<absent>!)\s*(?P<no_key>[^\s,=!()]+)"
    r"|(?P<key>[^\s,=!()]+)\s*(?:(?P<operator>==|=|!=|\bin\b|\bnotin\b)\s*(?:\((?P<values>[^)]*)\)|(?P<value>[^\s,()]*)))?"
    r")\s*(?:,|$)"
)


def _labels_match(selector: str, labels: Mapping[str, str]) -> bool:
    return all(_label_matches(requirement, labels) for requirement in _requirements(selector))


def _requirements(selector: str) -> Iterator[re.Match[str]]:
    position = 0
    while position < len(selector):
        matched = _REQUIREMENT.match(selector, position)
        if matched is None:
            raise ValueError(f"label selector {selector!r} cannot be read from position {position} on")
        yield matched
        position = matched.end()


def _label_matches(requirement: re.Match[str], labels: Mapping[str, str]) -> bool:
    if requirement["absent"]:
        return requirement["no_key"] not in labels
    key, operator = requirement["key"], requirement["operator"]
    if operator is None:
        return key in labels
    given = requirement["values"] if requirement["values"] is not None else requirement["value"]
    wanted = {value.strip() for value in given.split(",")}
    if operator in ("!=", "notin"):
        return labels.get(key) not in wanted
    return labels.get(key) in wanted


def _fields_match(selector: str, content: Mapping[str, Any]) -> bool:
    return all(_field_matches(term.strip(), content) for term in selector.split(",") if term.strip())


def _field_matches(term: str, content: Mapping[str, Any]) -> bool:
    path, operator, wanted = re.split(r"(==|!=|=)", term, maxsplit=1)
    return (_field(content, path.strip()) == wanted.strip()) != (operator == "!=")


def _field(content: Any, path: str) -> str:
    """The field's text; an absent one reads as empty, as in the API server."""
    for step in path.split("."):
        content = content.get(step) if isinstance(content, Mapping) else None
    if isinstance(content, bool):
        return str(content).lower()
    return "" if content is None else str(content)
