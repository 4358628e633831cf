"""What a container is given beside its image: by its plugins, and by its own specification."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from devcluster.kubelet.grants import Grant


class Mount(msgspec.Struct, frozen=True, rename="camel"):
    container_path: str
    host_path: str
    read_only: bool = False


class DeviceNode(msgspec.Struct, frozen=True, rename="camel"):
    container_path: str
    host_path: str
    permissions: str = ""


class Given(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`cdi_devices` are fully qualified names."""

    environment: dict[str, str] = {}
    mounts: tuple[Mount, ...] = ()
    devices: tuple[DeviceNode, ...] = ()
    annotations: dict[str, str] = {}
    cdi_devices: tuple[str, ...] = ()
    command: tuple[str, ...] = ()


def by_plugins(grants: Iterable[Grant]) -> Given:
    """Of several answers the first that names a variable, a path or an annotation wins."""
    environment: dict[str, str] = {}
    annotations: dict[str, str] = {}
    mounts: dict[str, Mount] = {}
    devices: dict[str, DeviceNode] = {}
    cdi: dict[str, None] = {}
    for grant in grants:
        answer = grant.answer
        environment = {**answer.envs, **environment}
        annotations = {**answer.annotations, **annotations}
        for mount in answer.mounts:
            mounts.setdefault(mount.container_path, Mount(mount.container_path, mount.host_path, mount.read_only))
        for node in answer.devices:
            devices.setdefault(node.container_path, DeviceNode(node.container_path, node.host_path, node.permissions))
        cdi |= dict.fromkeys(device.name for device in answer.cdi_devices)
    return Given(
        environment=environment,
        mounts=tuple(mounts.values()),
        devices=tuple(devices.values()),
        annotations=annotations,
        cdi_devices=tuple(cdi),
    )


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """`$(NAME)` by its value where there is one; `$$` is a plain dollar sign."""
    parts: list[str] = []
    rest = text
    while rest:
        before, dollar, rest = rest.partition("$")
        parts.append(before)
        if rest.startswith("$"):
            parts.append("$")
            rest = rest[1:]
        elif rest.startswith("(") and ")" in rest:
            name, _, rest = rest[1:].partition(")")
            parts.append(variables.get(name, f"$({name})"))
        else:
            parts.append(dollar)
    return "".join(parts)
