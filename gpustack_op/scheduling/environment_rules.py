"""A container behind our queues gets what it requests, and nothing by another door.

Guarantees   Variables, mounts and annotations that belong to the agent or the container runtime are refused where they
             are written out. A container that requests nothing of a manufacturer is told to see none of its cards,
             since many images ask for all of them.
Limits       What `envFrom` brings, and Pods outside our queues, are out of reach here: there only CDI helps.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any

from gpustack_op.scheduling import labels
from gpustack_op.scheduling.breaches import Breach, forbidden, invalid
from gpustack_op.scheduling.manufacturers import MANUFACTURERS, Family, Manufacturer, Manufacturers
from gpustack_op.scheduling.request_claims import Json, obtains, read_claims

LOADER_VARIABLE = "LD_PRELOAD"
LOADER_FILE = "/etc/ld.so.preload"
"""By these the agent's library is loaded into every program of a slice, or could be kept from it."""

CDI_ANNOTATIONS = "cdi.k8s.io/"

PARTS_OF_CARDS = frozenset({Family.SHARED, Family.SLICED, Family.PARTITIONED})


def closed(spec: Json, manufacturers: Manufacturers = MANUFACTURERS) -> dict[str, Any]:
    """The spec with every container told to see no card of manufacturers from whom it requests none."""
    result = dict(spec)
    for field in ("initContainers", "containers"):
        if spec.get(field):
            result[field] = [_blindfolded(container, manufacturers) for container in spec[field]]
    return result


def environment_breaches(
    metadata: Json, spec: Json, *, at: str = "", manufacturers: Manufacturers = MANUFACTURERS
) -> list[Breach]:
    """Everything that opens a door. `at`, such as `spec.template.`, leads to the Pod's metadata and spec."""
    found = [*_annotations(metadata, at)]
    parts = {family for each in read_claims(spec, "", manufacturers) for family in each.families} & PARTS_OF_CARDS
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            path = f"{at}spec.{field}[{index}]"
            found += _variables(container, path, manufacturers)
            found += _mounts(container, path, manufacturers)
            if parts and (container.get("securityContext") or {}).get("privileged"):
                found.append(forbidden(f"{path}.securityContext.privileged", _PRIVILEGED))
    return found


_PRIVILEGED = "a privileged container reaches every accelerator of its node; a Pod with one may request only whole ones"


def _blindfolded(container: Json, manufacturers: Manufacturers) -> Json:
    present = {each.get("name") for each in container.get("env") or ()}
    added = [
        {"name": row.doors.visible_devices, "value": row.doors.no_devices}
        for row in manufacturers
        if row.doors.visible_devices and row.doors.visible_devices not in present and not obtains(container, row)
    ]
    return {**container, "env": [*(container.get("env") or ()), *added]} if added else container


def _annotations(metadata: Json, at: str) -> Iterator[Breach]:
    for key in sorted(metadata.get("annotations") or {}):
        if key == labels.ALLOCATED or key.startswith(CDI_ANNOTATIONS):
            yield forbidden(
                f"{at}metadata.annotations[{key}]",
                "is reserved for the agent of the Pod's node, which gives a container what it requests",
            )


def _variables(container: Json, path: str, manufacturers: Manufacturers) -> Iterator[Breach]:
    for variable in container.get("env") or ():
        name = variable.get("name") or ""
        if name == LOADER_VARIABLE or any(
            row.doors.reserves(name) and not _is_blindfold(variable, container, row) for row in manufacturers
        ):
            yield forbidden(
                f"{path}.env[{name}]",
                "is reserved for the agent of the Pod's node, which gives a container what it requests",
            )


def _is_blindfold(variable: Json, container: Json, row: Manufacturer) -> bool:
    """What `closed` writes; it stands in a template whose Pods come by again."""
    doors = row.doors
    wanted = {"name": doors.visible_devices, "value": doors.no_devices}
    return dict(variable) == wanted and not obtains(container, row)


def _mounts(container: Json, path: str, manufacturers: Manufacturers) -> Iterator[Breach]:
    reserved = [LOADER_FILE, *(place for row in manufacturers for place in row.doors.paths)]
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        written = mount.get("mountPath") or ""
        place = _absolute(written)
        hit = next((each for each in reserved if _holds(place, each) or _holds(each, place)), None)
        if hit is not None:
            yield invalid(
                f"{path}.volumeMounts[{index}].mountPath",
                written,
                f"must not be equal to, above or below {hit}, where the agent of the Pod's node mounts",
            )


def _absolute(path: str) -> str:
    """As the kubelet takes it: a relative path starts at the root."""
    return posixpath.normpath("/" + path.lstrip("/"))


def _holds(outer: str, inner: str) -> bool:
    return inner == outer or inner.startswith(outer.rstrip("/") + "/")
