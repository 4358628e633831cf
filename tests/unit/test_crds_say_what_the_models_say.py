"""The generated CustomResourceDefinitions: structure, columns, rules, and that the files are up to date."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field

from gpustack_op.api.crd import DEFINITIONS, manifest, schema, structural
from gpustack_op.api.instance_type import InstanceType
from gpustack_op.api.model import CustomResource, Definition, Model

REPOSITORY = Path(__file__).parents[2]
MANIFESTS = {definition.resource.kind: manifest(definition) for definition in DEFINITIONS}

CATALOG = [
    *["GENERALGROUP", "ACCELERATORGROUP", "ACCELERATABLE", "MANUFACTURER", "PRODUCT", "MEMORY", "CORES", "SLICEABLE"]
]


def columns(kind: str, *, wide: bool) -> list[str]:
    version = MANIFESTS[kind]["spec"]["versions"][0]
    return [
        column["name"].upper() for column in version["additionalPrinterColumns"] if wide or not column.get("priority")
    ]


def nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema node with its path."""
    yield path, node
    for name, value in node.get("properties", {}).items():
        yield from nodes(value, f"{path}.{name}")
    if "items" in node:
        yield from nodes(node["items"], f"{path}[]")
    if "additionalProperties" in node:
        yield from nodes(node["additionalProperties"], f"{path}{{}}")


def test_the_files_are_up_to_date() -> None:
    command = [sys.executable, str(REPOSITORY / "hack" / "generate"), "all", "--check"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120, cwd=REPOSITORY)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    ("kind", "narrow", "wide"),
    [
        (
            "InstanceType",
            ["ENTRANCE", "UNIT(CPU/RAM)/STORAGE", "ACCELERATOR(EX/SH/SL/PT)", "CPU", "PHASE"],
            ["ENTRANCE", "UNIT(CPU/RAM)/STORAGE", "ACCELERATOR(EX/SH/SL/PT)", "CPU", "PHASE", "PARTITIONS"],
        ),
        (
            "InstanceTypeFlavor",
            CATALOG,
            CATALOG,
        ),
        ("Devices", [], ["AGE"]),
        ("Setting", ["VALUE", "DEFAULT", "MESSAGE"], ["VALUE", "DEFAULT", "MESSAGE", "TYPE", "DESCRIPTION"]),
    ],
)
def test_columns(kind: str, narrow: list[str], wide: list[str]) -> None:
    assert (columns(kind, wide=False), columns(kind, wide=True)) == (narrow, wide)


@pytest.mark.parametrize(
    ("kind", "short", "scope", "subresources"),
    [
        ("InstanceType", ["instype"], "Cluster", {"status": {}}),
        ("InstanceTypeFlavor", ["instypeflavor"], "Cluster", None),
        ("Devices", None, "Cluster", {"status": {}}),
        ("Setting", ["set"], "Namespaced", {"status": {}}),
    ],
)
def test_names(kind: str, short: list[str] | None, scope: str, subresources: dict[str, Any] | None) -> None:
    spec = MANIFESTS[kind]["spec"]
    assert (spec["names"].get("shortNames"), spec["scope"], spec["versions"][0].get("subresources")) == (
        short,
        scope,
        subresources,
    )
    assert spec["names"]["categories"] == ["gpustack"]


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.resource.kind)
def test_every_field_is_described_and_typed(definition: Definition) -> None:
    found = dict(nodes(schema(definition.model)))
    undescribed = [path for path in found if "description" not in found[path] and not path.endswith("]")]
    untyped = [path for path in found if not {"type", "x-kubernetes-int-or-string"} & set(found[path])]
    assert (undescribed, untyped) == ([".metadata"], [])


@pytest.mark.parametrize(
    ("path", "keys"),
    [
        (".spec.groups", ["id", "manufacturer"]),
        (".spec.groups[].accelerators", ["id"]),
        (".status.groups", ["id", "manufacturer"]),
        (".status.groups[].accelerators", ["id"]),
    ],
)
def test_lists_of_devices_are_maps(path: str, keys: list[str]) -> None:
    node = dict(nodes(MANIFESTS["Devices"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]))[path]
    assert (node["x-kubernetes-list-type"], node["x-kubernetes-list-map-keys"]) == ("map", keys)


def test_frozen_fields_and_descriptors_of_an_instance_type() -> None:
    rules = schema(InstanceType)["properties"]["spec"]["x-kubernetes-validations"]
    frozen = [rule["fieldPath"] for rule in rules if "is immutable; only" in rule["message"]]
    once = [rule["fieldPath"] for rule in rules if "is immutable once it is set" in rule["message"]]
    assert frozen == [
        *[".acceleratable", ".acceleratorGroup", ".generalGroup", ".os", ".arch", ".unitResources", ".localStorage"]
    ]
    assert once == [".manufacturer", ".product", ".family", ".memory", ".cores", ".feature"]
    unruled = set(InstanceType.model_fields["spec"].annotation.model_json_schema()["properties"])  # type: ignore[union-attr]
    assert unruled - {rule["fieldPath"][1:] for rule in rules} == {"displayName", "description", "inactive"}


def test_limits_of_what_people_write_freely() -> None:
    properties = schema(InstanceType)["properties"]["spec"]["properties"]
    assert (properties["displayName"]["maxLength"], properties["description"]["maxLength"]) == (64, 1024)


def test_a_quantity_is_a_number_or_a_text() -> None:
    memory = schema(InstanceType)["properties"]["spec"]["properties"]["memory"]
    assert memory["x-kubernetes-int-or-string"] is True
    assert "isQuantity" in memory["x-kubernetes-validations"][0]["rule"]


class Inner(Model):
    """Inside."""

    number: Annotated[int, Field(ge=1)] | None = None
    """A number."""


class Odd(CustomResource):
    """A kind with an inlined part, an optional and a map."""

    spec: Inner
    """Own words win."""

    labels: dict[str, Inner] | None = None
    """A map."""


def test_references_are_inlined_null_is_dropped_and_own_words_win() -> None:
    properties = schema(Odd)["properties"]
    inner = {"number": {"type": "integer", "description": "A number.", "minimum": 1}}
    assert properties["spec"] == {"type": "object", "description": "Own words win.", "properties": inner}
    assert properties["labels"] == {
        "type": "object",
        "description": "A map.",
        "additionalProperties": {"type": "object", "description": "Inside.", "properties": inner},
    }


@pytest.mark.parametrize(
    "node", [{"anyOf": [{"type": "string"}, {"type": "integer"}]}, {"type": "integer", "exclusiveMinimum": 0}]
)
def test_what_a_structural_schema_cannot_say_is_an_error(node: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="a structural schema"):
        structural(node, {})
