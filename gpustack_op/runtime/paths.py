"""Where a collection, an object or a subresource is served.

Guarantees   Every part that comes from a name is escaped.
Assumptions  A namespaced object is asked for with its namespace.
Recovery     None: a missing name or namespace is a mistake in the program and raises ValueError.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from gpustack_op.api.meta import Resource


def collection_path(resource: Resource[Any], namespace: str = "") -> str:
    """Every namespace when it is empty."""
    base = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    within = f"/namespaces/{quote(namespace, safe='')}" if resource.namespaced and namespace else ""
    return f"{base}{within}/{resource.plural}"


def object_path(resource: Resource[Any], name: str, namespace: str = "", subresource: str = "") -> str:
    if not name:
        raise ValueError(f"{resource}: an object without a name was asked for")
    if resource.namespaced and not namespace:
        raise ValueError(f"{resource} {name!r}: the namespace is missing")
    below = f"/{subresource}" if subresource else ""
    return f"{collection_path(resource, namespace)}/{quote(name, safe='')}{below}"
