"""A client configuration from a kubeconfig.

Guarantees   Whatever kubernetes-asyncio understands works: files, inline data, exec plugins, OIDC with refresh.
             Credentials are looked at again when the client asks, and a refused plugin credential is fetched anew.
Assumptions  Importing the reader costs 70 MiB and most of a second, so nobody imports it who was not given a
             kubeconfig.
Recovery     An unreadable file, or a plugin that fails at the start, raises ConfigError with its text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpustack_op.runtime.config import ClientConfig, ConfigError


async def load(path: str | Path | None, context: str | None = None) -> ClientConfig:
    """From that file, or from KUBECONFIG or the home directory as kubectl does; with its current context by default."""
    # Imported here: it loads every model of the API.
    from kubernetes_asyncio.client import Configuration  # noqa: PLC0415
    from kubernetes_asyncio.config import load_kube_config  # noqa: PLC0415

    place = str(path) if path is not None else None
    try:
        read = Configuration()
        loader = await load_kube_config(config_file=place, context=context, client_configuration=read)
    except Exception as error:
        # The reader raises whatever a wrong file happens to break.
        raise ConfigError(f"kubeconfig {place or 'of this user'}: {error or 'is not complete'}") from error

    async def refreshed(refused: bool) -> ClientConfig:
        if refused:
            vars(loader).pop("exec_plugin_expiry", None)
        again = Configuration()
        await loader.load_and_set(again)
        return translated(again)

    def translated(given: Any) -> ClientConfig:
        return ClientConfig(
            server=given.host.rstrip("/"),
            ca_file=_path(given.ssl_ca_cert),
            certificate_file=_path(given.cert_file),
            key_file=_path(given.key_file),
            authorization=given.api_key.get("BearerToken", ""),
            verify=given.verify_ssl,
            server_name=given.tls_server_name,
            proxy=given.proxy,
            refresh=refreshed,
        )

    return translated(read)


def _path(given: str | None) -> Path | None:
    return Path(given) if given else None
