"""CustomResourceDefinitions from the pydantic models.

Guarantees   The schema is structural: no reference, no union with null, no default. Every description, bound, list key
             and CEL rule stated on a model is in it; the same models always give the same document.
Assumptions  The models use what a structural schema can say; anything else is a ValueError here, not a surprise in
             the API server.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Final

from pydantic.json_schema import models_json_schema

from gpustack_op.api import devices, instance_type, instance_type_flavor, setting
from gpustack_op.api.model import Column, CustomResource, Definition

CATEGORY: Final = "gpustack"
DEFINITIONS: Final = (
    instance_type.DEFINITION,
    instance_type_flavor.DEFINITION,
    devices.DEFINITION,
    setting.DEFINITION,
)

_REF: Final = "#/$defs/"
_KEPT: Final = (
    *("type", "description", "format", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength"),
    *("minItems", "maxItems", "required", "x-kubernetes-int-or-string", "x-kubernetes-validations"),
    *("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"),
)
_DROPPED: Final = frozenset({"title", "default", "$defs", "properties", "items", "additionalProperties"})

_STANDARD: Final = {
    "apiVersion": "Version of the API this object is written in.",
    "kind": "Kind of this object.",
}


def manifest(definition: Definition) -> dict[str, Any]:
    """The CustomResourceDefinition to apply."""
    resource = definition.resource
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.full_name},
        "spec": {
            "group": resource.group,
            "names": _names(definition),
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [_version(definition)],
        },
    }


def _names(definition: Definition) -> dict[str, Any]:
    kind = definition.resource.kind
    names = {
        "categories": [CATEGORY],
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": definition.resource.plural,
        "singular": kind.lower(),
    }
    return names | ({"shortNames": list(definition.short_names)} if definition.short_names else {})


def _version(definition: Definition) -> dict[str, Any]:
    version = {
        "name": definition.resource.version,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [_column(column) for column in definition.columns],
        "schema": {"openAPIV3Schema": schema(definition.model)},
    }
    return version | ({"subresources": {"status": {}}} if definition.status else {})


def _column(column: Column) -> dict[str, Any]:
    shown = {
        "name": column.header,
        "type": column.type,
        "jsonPath": column.path,
        "description": column.description,
    }
    return shown | ({"priority": column.priority} if column.priority else {})


def schema(model: type[CustomResource]) -> dict[str, Any]:
    """The structural schema of a whole object. `metadata` is the API server's own business."""
    _, document = models_json_schema([(model, "validation")], by_alias=True)
    definitions = document["$defs"]
    root = structural(definitions[model.__name__], definitions)
    root["description"] = _prose(inspect.getdoc(model) or "")
    root["properties"]["metadata"] = {"type": "object"}
    for name, description in _STANDARD.items():
        root["properties"][name] = {"type": "string", "description": description}
    root["required"] = [name for name in root["required"] if name not in {*_STANDARD, "metadata"}]
    return {key: value for key, value in root.items() if value != []}


def structural(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """One JSON schema node as a structural schema: references inlined, null removed, prose unwrapped."""
    node = _resolved(node, definitions)
    unknown = set(node) - set(_KEPT) - _DROPPED
    if unknown:
        raise ValueError(f"a structural schema cannot say {sorted(unknown)}: {node}")
    kept: dict[str, Any] = {key: node[key] for key in _KEPT if key in node}
    if "description" in kept:
        kept["description"] = _prose(kept["description"])
    if "properties" in node:
        kept["properties"] = {name: structural(value, definitions) for name, value in node["properties"].items()}
    for nested in ("items", "additionalProperties"):
        if isinstance(node.get(nested), Mapping):
            kept[nested] = structural(node[nested], definitions)
    return kept


def _resolved(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """The node with its reference and its union with null replaced by what they stand for; its own words win."""
    own = dict(node)
    if "$ref" in own:
        return _resolved(definitions[own.pop("$ref").removeprefix(_REF)], definitions) | own
    if "anyOf" in own:
        present = [option for option in own.pop("anyOf") if option.get("type") != "null"]
        if len(present) != 1:
            raise ValueError(f"a structural schema has no unions: {node}")
        return _resolved(present[0], definitions) | own
    return own


def _prose(text: str) -> str:
    """One line: docstrings are wrapped for the source, kubectl wraps for the terminal."""
    return " ".join(text.split())
