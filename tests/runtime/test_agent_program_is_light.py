"""The agent runs on every node: it loads nothing it does not use, and says at once what it was not given."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("kubernetes_asyncio", "pynvml", "pydantic", "cryptography", "grpc", "yaml", "gpustack_op.operator")
"""What costs memory or belongs to the operator. YAML is loaded with the simulated detector only."""


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=Path(__file__).parents[2],
        env={"PYTHONPATH": ".", **environment},
    )


def test_the_program_imports_nothing_heavy() -> None:
    script = f"import sys, gpustack_op.cli.agent; print([name for name in {HEAVY!r} if name in sys.modules])"
    assert run("-c", script).stdout == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param([], "gpustack-agent: no node is named; give --node NAME", id="no node"),
        pytest.param(["--node", "n"], "gpustack-agent: KUBERNETES_SERVICE_HOST and", id="no API server"),
        pytest.param(["--node", "n", "--metrics-bind", "8080"], 'address "8080" is not host:port', id="no address"),
        pytest.param(["--node", "n", "--detector", "acme"], "invalid choice: 'acme'", id="no such detector"),
    ],
)
def test_what_is_missing_on_the_command_line_is_named(arguments: list[str], message: str) -> None:
    ended = run("-m", "gpustack_op.cli.agent", *arguments)
    assert ended.returncode == 2
    assert message in ended.stderr


def test_a_simulated_machine_needs_its_inventory(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("token", "ca")}
    for file in files.values():
        file.write_text("-")
    ended = run(
        *("-m", "gpustack_op.cli.agent", "--node", "n", "--detector", "simulated"),
        KUBERNETES_SERVICE_HOST="127.0.0.1",
        KUBERNETES_SERVICE_PORT="1",
        GPUSTACK_TOKEN_FILE=str(files["token"]),
        GPUSTACK_CA_FILE=str(files["ca"]),
    )
    assert (ended.returncode, ended.stderr) == (
        2,
        "gpustack-agent: --detector simulated needs an inventory; give its file with --inventory FILE\n",
    )
