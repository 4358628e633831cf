"""Where the API server is and how to prove who we are.

Guarantees   `from_environment` reads what a Pod is given: two variables and two files, whose places the variables
             GPUSTACK_TOKEN_FILE and GPUSTACK_CA_FILE can move, so that a program outside a cluster is started the
             same way.
Assumptions  Whoever holds a kubeconfig instead uses `kubeconfig.load`, which needs a heavier library.
Recovery     What is missing is named, with the variable that would supply it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class ConfigError(Exception):
    """The API server's place, or our own credentials, cannot be known."""


@dataclass(frozen=True, slots=True)
class ClientConfig:
    server: str
    """Base URL, without a slash at the end."""

    token_file: Path | None = None
    """Holds a bearer token; read again when it changes."""

    ca_file: Path | None = None
    """Trusted certificates; None means those of the system. Read again when it changes."""

    certificate_file: Path | None = None
    key_file: Path | None = None
    authorization: str = field(default="", repr=False)
    """A ready-made Authorization header, where no token file says it."""

    verify: bool = True
    """Turning it off trusts whoever answers: for throw-away clusters only."""

    server_name: str | None = None
    """Name in the server's certificate where it differs from the URL's host."""

    proxy: str | None = None
    refresh: Callable[[bool], Awaitable[ClientConfig]] | None = field(default=None, compare=False, repr=False)
    """Gives a configuration whose credentials are good now; True means that the present ones were refused."""

    @staticmethod
    def from_environment(environment: Mapping[str, str]) -> ClientConfig:
        host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "")
        if not host or not port:
            raise ConfigError(
                "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not both set: outside a cluster, "
                "set them together with GPUSTACK_TOKEN_FILE and GPUSTACK_CA_FILE, or give a kubeconfig"
            )
        return ClientConfig(
            server=f"https://{_host_in_url(host)}:{port}",
            token_file=_existing(environment, "GPUSTACK_TOKEN_FILE", SERVICE_ACCOUNT / "token"),
            ca_file=_existing(environment, "GPUSTACK_CA_FILE", SERVICE_ACCOUNT / "ca.crt"),
        )

    @staticmethod
    async def from_kubeconfig(path: str | Path | None, context: str | None = None) -> ClientConfig:
        """See `kubeconfig.load`."""
        # Imported here: only programs that are given a kubeconfig pay for its reader.
        from gpustack_op.runtime import kubeconfig  # noqa: PLC0415

        return await kubeconfig.load(path, context)


def _host_in_url(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _existing(environment: Mapping[str, str], variable: str, usual: Path) -> Path:
    path = Path(environment.get(variable) or usual)
    if not path.is_file():
        raise ConfigError(f"{path} does not exist: {variable} names the file to read instead")
    return path
