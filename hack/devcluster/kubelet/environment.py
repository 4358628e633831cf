"""The variables of a container, and the command it runs.

Guarantees   Variables of plugins come first, then `envFrom`, then `env`, and the later of one name wins. A process sees
             these, a search path, a home and its Pod's name as the host's, and nothing else.
Assumptions  Images are not pulled. A command of this machine is run; for anything else, and for what only the image
             could tell, a process stands in that does nothing.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from devcluster.kubelet.given import expanded
from devcluster.kubelet.pods import Json, Pod, amounts

SEARCH_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

STAND_IN: Final = ("sleep", "infinity")

_KEYED: Final = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")

Lookup = Callable[[str, str, str], Awaitable[Mapping[str, str] | None]]
"""Kind (`configmaps` or `secrets`), namespace and name to the data, in clear; None when there is no such object."""


class ConfigurationError(Exception):
    """A variable cannot be had; the container waits until it can."""


async def environment(
    pod: Pod, container: Json, *, plugins: Mapping[str, str], address: tuple[str, str], lookup: Lookup
) -> dict[str, str]:
    """`address` are the node's and the Pod's."""
    found = {"PATH": SEARCH_PATH, "HOME": "/root", "HOSTNAME": pod.name, **plugins}
    for source in container.get("envFrom") or []:
        found |= await _all_of(pod, source, lookup)
    for variable in container.get("env") or []:
        value = await _value(pod, container, variable, address, lookup)
        if value is not None:
            found[variable["name"]] = expanded(value, found)
    return found


def command(container: Json, variables: Mapping[str, str]) -> tuple[list[str], str]:
    """What to run, and if it is not what was asked for, why."""
    wanted = [expanded(each, variables) for each in container.get("command") or []]
    if not wanted:
        return list(STAND_IN), "the image's own command is not known"
    if shutil.which(wanted[0], path=variables.get("PATH", SEARCH_PATH)) is None:
        return list(STAND_IN), f"this machine has no {wanted[0]}"
    return wanted + [expanded(each, variables) for each in container.get("args") or []], ""


async def _all_of(pod: Pod, source: Json, lookup: Lookup) -> dict[str, str]:
    for field, kind in (("configMapRef", "configmaps"), ("secretRef", "secrets")):
        if field in source:
            data = await _data(pod, source[field], kind, lookup)
            return {f"{source.get('prefix', '')}{key}": value for key, value in data.items()}
    return {}


async def _value(pod: Pod, container: Json, variable: Json, address: tuple[str, str], lookup: Lookup) -> str | None:
    source = variable.get("valueFrom")
    if not source:
        return str(variable.get("value", ""))
    if "fieldRef" in source:
        return _field(pod, source["fieldRef"].get("fieldPath", ""), address)
    if "resourceFieldRef" in source:
        return _resource(container, source["resourceFieldRef"].get("resource", ""))
    for field, kind in (("configMapKeyRef", "configmaps"), ("secretKeyRef", "secrets")):
        if field in source:
            return await _keyed(pod, source[field], kind, lookup)
    return ""


async def _keyed(pod: Pod, reference: Json, kind: str, lookup: Lookup) -> str | None:
    data = await _data(pod, reference, kind, lookup)
    if reference["key"] not in data and not reference.get("optional"):
        raise ConfigurationError(f'couldn\'t find key {reference["key"]} in {kind[:-1]} "{reference["name"]}"')
    return data.get(reference["key"])


async def _data(pod: Pod, reference: Json, kind: str, lookup: Lookup) -> Mapping[str, str]:
    data = await lookup(kind, pod.namespace, reference["name"])
    if data is None and not reference.get("optional"):
        raise ConfigurationError(f'{kind[:-1]} "{reference["name"]}" not found')
    return data or {}


def _field(pod: Pod, path: str, address: tuple[str, str]) -> str:
    keyed = _KEYED.fullmatch(path)
    if keyed:
        values = pod.labels if keyed[1] == "labels" else pod.annotations
        return values.get(keyed[2], "")
    known = {
        "metadata.name": pod.name,
        "metadata.namespace": pod.namespace,
        "metadata.uid": pod.uid,
        "spec.nodeName": str(pod.spec.get("nodeName", "")),
        "spec.serviceAccountName": str(pod.spec.get("serviceAccountName", "")),
        "status.hostIP": address[0],
        "status.podIP": address[1],
    }
    if path not in known:
        raise ConfigurationError(f"unsupported fieldPath: {path}")
    return known[path]


def _resource(container: Json, path: str) -> str:
    group, _, resource = path.partition(".")
    found = amounts((container.get("resources") or {}).get(group) or {})
    return str(found[resource].ceil()) if resource in found else "0"
