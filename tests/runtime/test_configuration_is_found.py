from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gpustack_op.runtime.client import Client
from gpustack_op.runtime.config import ClientConfig, ConfigError
from tests.runtime.apiserver import ApiServer, Reply
from tests.runtime.things import IN_A, THINGS, thing

ONE = f"{IN_A}/one"


def in_cluster(folder: Path, **more: str) -> dict[str, str]:
    (folder / "token").write_text("t0ken")
    (folder / "ca.crt").write_text("certificate")
    files = {"GPUSTACK_TOKEN_FILE": str(folder / "token"), "GPUSTACK_CA_FILE": str(folder / "ca.crt")}
    return {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443", **files, **more}


@pytest.mark.parametrize(
    ("host", "server"),
    [
        ("10.0.0.1", "https://10.0.0.1:443"),
        ("fd00::1", "https://[fd00::1]:443"),
        ("[fd00::1]", "https://[fd00::1]:443"),
        ("kubernetes.default.svc", "https://kubernetes.default.svc:443"),
    ],
)
def test_the_server_comes_from_two_variables(tmp_path: Path, host: str, server: str) -> None:
    config = ClientConfig.from_environment(in_cluster(tmp_path, KUBERNETES_SERVICE_HOST=host))
    assert config == ClientConfig(server=server, token_file=tmp_path / "token", ca_file=tmp_path / "ca.crt")


@pytest.mark.parametrize("variable", ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"])
def test_a_missing_variable_is_named(tmp_path: Path, variable: str) -> None:
    with pytest.raises(ConfigError, match=variable):
        ClientConfig.from_environment(in_cluster(tmp_path, **{variable: ""}))


def test_a_missing_file_is_named_with_the_variable_that_moves_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere does not exist: GPUSTACK_TOKEN_FILE"):
        ClientConfig.from_environment(in_cluster(tmp_path, GPUSTACK_TOKEN_FILE=str(tmp_path / "nowhere")))


def test_a_token_is_never_shown() -> None:
    assert "t0ken" not in repr(ClientConfig(server="", authorization="Bearer t0ken"))


def test_the_reader_of_kubeconfigs_is_not_imported_without_one() -> None:
    script = "import sys, gpustack_op.runtime.cache; print('kubernetes_asyncio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def kubeconfig(folder: Path, server: str, user: dict[str, object]) -> Path:
    path = folder / "config"
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": server}}],
                "users": [{"name": "u", "user": user}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    return path


async def test_a_token_in_a_kubeconfig(tmp_path: Path) -> None:
    config = await ClientConfig.from_kubeconfig(kubeconfig(tmp_path, "https://10.0.0.1:6443/", {"token": "t0ken"}))
    assert (config.server, config.authorization, config.verify) == ("https://10.0.0.1:6443", "Bearer t0ken", True)


async def test_an_exec_plugin_is_asked_again_when_its_token_is_refused(api: ApiServer, tmp_path: Path) -> None:
    plugin, count = tmp_path / "plugin", tmp_path / "count"
    count.write_text("0")
    plugin.write_text(
        f"#!{sys.executable}\n"
        "import json, pathlib\n"
        f"count = pathlib.Path({str(count)!r})\n"
        "turn = int(count.read_text()) + 1\n"
        "count.write_text(str(turn))\n"
        'status = {"token": f"token-{turn}", "expirationTimestamp": "2999-01-01T00:00:00Z"}\n'
        'print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",'
        ' "status": status}))\n'
    )
    plugin.chmod(0o755)
    how = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(plugin),
        "env": [],
        "args": [],
        "interactiveMode": "Never",
    }
    config = await ClientConfig.from_kubeconfig(kubeconfig(tmp_path, api.url, {"exec": how}))
    api.script("get", ONE, *[Reply(body=thing("one", 7))] * 2)
    api.tokens = {"token-1"}
    async with Client(config) as client:
        await client.get(THINGS, "one", "a")
        api.tokens = {"token-2"}
        await client.get(THINGS, "one", "a")
    tokens = [seen.headers["Authorization"] for seen in api.seen]
    assert tokens == ["Bearer token-1", "Bearer token-1", "Bearer token-2"]


def token_of(claims: dict[str, object]) -> str:
    parts: list[dict[str, object]] = [{"alg": "none"}, claims, {}]
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)


async def test_a_valid_oidc_token_is_used_as_it_is(tmp_path: Path) -> None:
    token = token_of({"exp": 32503680000})
    provider = {"name": "oidc", "config": {"id-token": token, "client-id": "c", "idp-issuer-url": "https://i"}}
    config = await ClientConfig.from_kubeconfig(kubeconfig(tmp_path, "https://s", {"auth-provider": provider}))
    assert config.authorization == f"Bearer {token}"


@pytest.mark.parametrize("content", ["", "nonsense: [", "clusters: []", "a: 1"])
async def test_a_kubeconfig_that_is_none_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(ConfigError, match=str(path)):
        await ClientConfig.from_kubeconfig(path)


async def test_a_kubeconfig_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        await ClientConfig.from_kubeconfig(tmp_path / "nowhere")
