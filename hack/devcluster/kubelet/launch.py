"""Starts one container: its folder, its variables, its process.

Guarantees   What the container was given stands in `given.json` in its folder. Its process starts in a root folder
             of its own, where each mount and each device node is a link under its container path.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from devcluster.containers.interface import Runtime, Specification
from devcluster.kubelet.environment import Lookup, command, environment
from devcluster.kubelet.folders import Folders
from devcluster.kubelet.given import Given, Mount
from devcluster.kubelet.pods import Json, Pod


class Launcher:
    """`address` is the node's."""

    def __init__(self, node: str, address: str, folders: Folders, runtime: Runtime, lookup: Lookup) -> None:
        self._node = node
        self._address = address
        self._folders = folders
        self._runtime = runtime
        self._lookup = lookup

    async def launch(self, pod: Pod, container: Json, attempt: int, plugins: Given, address: str) -> None:
        """`plugins` is what they give, `address` the Pod's. Raises ConfigurationError or StartError."""
        name = container["name"]
        variables = await environment(
            pod,
            container,
            plugins=plugins.environment,
            address=(self._address, address),
            lookup=self._lookup,
        )
        line, why = command(container, variables)
        mounts = (*_volume_mounts(pod, container, self._folders.pod(pod.uid)), *plugins.mounts)
        given = msgspec.structs.replace(plugins, environment=variables, mounts=mounts, command=tuple(line))
        folder = self._folders.container(pod.uid, name)
        root = _prepare(folder, given)
        log = folder / f"{attempt}.log"
        log.write_text(f"simulated container: {why}; a process that does nothing stands in for it\n" if why else "")
        await self._runtime.start(
            Specification(
                id=f"{pod.uid}-{name}-{attempt}",
                node=self._node,
                pod=pod.uid,
                container=name,
                attempt=attempt,
                command=line,
                environment=variables,
                directory=str(_start_folder(root, container)),
                log=str(log),
            )
        )


def _prepare(folder: Path, given: Given) -> Path:
    root = folder / "root"
    root.mkdir(parents=True, exist_ok=True)
    links = {each.container_path: each.host_path for each in given.mounts}
    links |= {each.container_path: each.host_path for each in given.devices}
    for inside, outside in links.items():
        _link(root, inside, outside)
    (folder / "given.json").write_bytes(msgspec.json.encode(given))
    return root


def _link(root: Path, inside: str, outside: str) -> None:
    """One mount inside another has no place of its own here."""
    link = root / inside.strip("/")
    if link.is_symlink() or any(parent.is_symlink() for parent in link.parents if parent.is_relative_to(root)):
        return
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.exists():
        link.symlink_to(outside)


def _start_folder(root: Path, container: Json) -> Path:
    """A working directory that the container does not bring is created, as runtimes do."""
    wanted = root / str(container.get("workingDir") or "").strip("/")
    wanted.mkdir(parents=True, exist_ok=True)
    return wanted


def _volume_mounts(pod: Pod, container: Json, folder: Path) -> list[Mount]:
    volumes = {volume["name"]: volume for volume in pod.spec.get("volumes") or []}
    return [
        Mount(each["mountPath"], str(_source(volumes.get(each["name"], {}), folder)), bool(each.get("readOnly")))
        for each in container.get("volumeMounts") or []
    ]


def _source(volume: Mapping[str, Json], folder: Path) -> Path:
    """Where a volume is on this machine. Only folders are: what others would hold is not fetched."""
    if "hostPath" in volume:
        return Path(volume["hostPath"]["path"])
    place = folder / "volumes" / str(volume.get("name", "unknown"))
    place.mkdir(parents=True, exist_ok=True)
    return place
