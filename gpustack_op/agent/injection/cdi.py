"""The container device interface: what the node's runtime can inject by name.

Guarantees   Specs are read anew for each question. A spec that cannot be read makes no error, it names nothing.
Assumptions  Where specs lie is the specification's own default. Names are those of the vendor's generator: the ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import yaml

FOLDERS: Final = (Path("/etc/cdi"), Path("/var/run/cdi"))

_CONTAINERD: Final = re.compile(r"containerd://v?(\d+)\.")
_CRIO: Final = re.compile(r"cri-o://v?(\d+)\.(\d+)")
CONTAINERD_SINCE: Final = 2
"""The major version that resolves CDI names unless it is told not to. Before, it had to be told to."""
CRIO_SINCE: Final = (1, 23)


def takes_cdi(runtime: str) -> bool:
    """Whether a container runtime resolves CDI names by default, from what a Node tells of it: `containerd://2.1.4`."""
    containerd, crio = _CONTAINERD.match(runtime), _CRIO.match(runtime)
    if containerd:
        return int(containerd[1]) >= CONTAINERD_SINCE
    return bool(crio) and (int(crio[1]), int(crio[2])) >= CRIO_SINCE if crio else False


class Specs:
    def __init__(self, folders: Iterable[Path] = FOLDERS) -> None:
        self._folders = tuple(folders)

    def names(self) -> frozenset[str]:
        """All qualified names: `<kind>=<device>`."""
        return frozenset(name for path in self._paths() for name in _names(path))

    def _paths(self) -> Iterator[Path]:
        for folder in self._folders:
            for pattern in ("*.json", "*.yaml"):
                yield from sorted(folder.glob(pattern))


def _names(path: Path) -> Iterator[str]:
    spec = _read(path)
    kind, devices = spec.get("kind"), spec.get("devices")
    for device in devices if isinstance(devices, list) else ():
        if isinstance(device, dict) and isinstance(kind, str) and device.get("name"):
            yield f"{kind}={device['name']}"


def _read(path: Path) -> dict[str, Any]:
    """JSON is YAML."""
    try:
        spec = yaml.load(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return spec if isinstance(spec, dict) else {}
