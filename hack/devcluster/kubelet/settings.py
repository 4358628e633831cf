"""What a kubelet process is told, in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from devcluster.kubelet.devices import STOPPED_GRACE
from gpustack_op.runtime.config import ClientConfig

STATUS_PERIOD: Final = 10.0
"""Seconds between two reports of the node's resources; the real kubelet's default."""


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds; the defaults are the real kubelet's."""

    status_period: float = STATUS_PERIOD
    stopped_grace: float = STOPPED_GRACE
    """For how long the resource of a plugin that has ended stays in capacity."""

    backoff: float = 10.0
    """Before the second restart of a container; each further one waits twice as long."""

    retry: float = 10.0
    """Before a container that could not be started is tried again."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """`seed` decides whatever is arbitrary; without one it is so each time anew."""

    node: str
    inventory: str
    root: str
    runtime: str
    """Socket of the container runtime."""

    server: str
    authority: str
    certificate: str
    key: str
    port: int
    """Where the API server comes to for `kubectl exec` and `kubectl logs`."""

    serving_certificate: str
    serving_key: str
    timing: Timing = Timing()
    seed: int | None = None

    @property
    def client(self) -> ClientConfig:
        return ClientConfig(
            server=self.server,
            ca_file=Path(self.authority),
            certificate_file=Path(self.certificate),
            key_file=Path(self.key),
        )


def read(file: Path) -> Settings:
    return msgspec.json.decode(file.read_bytes(), type=Settings)


def write(file: Path, settings: Settings) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.encode(settings))
