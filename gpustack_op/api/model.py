"""What the pydantic models of our own kinds share: camelCase on the wire, and what a CRD says beside the schema.

The models are what people write: they give the CRD its schema and `kubectl explain` its texts (attribute docstrings),
and they check what the webhooks are shown. What caches hold is in `worker`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from gpustack_op.api.meta import Resource
from gpustack_op.api.quantity import QUANTITY_RULE


def camel_case(name: str) -> str:
    """`cache_line` as `cacheLine`; unlike pydantic's own, a digit starts no word: `l1d` stays."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


class Model(BaseModel):
    """A part of an object. Unknown fields are ignored, as the API server prunes them."""

    model_config = ConfigDict(
        alias_generator=camel_case, populate_by_name=True, frozen=True, use_attribute_docstrings=True, extra="ignore"
    )

    def wire(self) -> dict[str, Any]:
        """The JSON form, absent fields left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class Metadata(Model):
    """The metadata people write; everything else in it is carried along as it is."""

    model_config = ConfigDict(extra="allow")

    name: str = ""
    namespace: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class CustomResource(Model):
    """A whole object of one of our kinds."""

    api_version: str
    kind: str
    metadata: Metadata = Metadata()


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`. Those of a priority above 0 show with `-o wide` only."""

    header: str
    path: str
    description: str
    type: str = "string"
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Definition:
    """A kind as the API server learns it. Without columns kubectl would print AGE."""

    resource: Resource[Any]
    model: type[CustomResource]
    columns: tuple[Column, ...]
    short_names: tuple[str, ...] = ()
    status: bool = True


def rule(cel: str, message: str, *, field: str = "", reason: str = "FieldValueForbidden") -> dict[str, Any]:
    """One entry of `x-kubernetes-validations`; `field` is the path the refusal points at, relative to the rule."""
    entry = {"rule": cel, "message": message, "reason": reason}
    return entry | {"fieldPath": field} if field else entry


@dataclass(frozen=True, slots=True, eq=False)
class SchemaExtra:
    """Annotates a field's type with words that only Kubernetes' schemas know. Nothing is checked by it here."""

    words: dict[str, Any]

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), **self.words}


def must_be(what: str) -> SchemaExtra:
    """Says of a quantity field what it takes, where that is less than any quantity."""
    return SchemaExtra({"x-kubernetes-validations": [{"rule": QUANTITY_RULE, "message": f"must be {what}"}]})


def list_map(*keys: str) -> SchemaExtra:
    """Marks a list as a map by these fields of its items, so that several writers may each own some of them."""
    return SchemaExtra({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)})


Count = Annotated[int, Field(ge=0), SchemaExtra({"format": "int64"})]
"""A whole number from 0."""
