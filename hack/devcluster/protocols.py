"""The kubelet's gRPC interfaces: stubs of our own protocol files, and proof that they say what the kubelet's say.

What two sides must agree on are packages, services, messages, and the names, numbers and types of fields. `facts` tells
just these of a protocol file, so that ours and the kubelet's can be compared, whatever else stands in them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    MethodDescriptorProto,
)

from devcluster.errors import BuildError
from devcluster.go import Go
from devcluster.paths import REPOSITORY, TOOLS

Facts = dict[str, str]
"""What is named, and what is said of it: `v1.PodResources.name` is `string 1`."""

PROTOCOLS: Final = "gpustack_op/agent/proto"
"""Folder of our protocol files, and of the stubs."""

KUBELET_MODULE: Final = "k8s.io/kubelet"
KUBELETS: Final = ("pkg/apis/deviceplugin/v1beta1/api.proto", "pkg/apis/podresources/v1/api.proto")
"""In the module; those that our files stand for."""

KINDS: Final = ("python", "grpc_python", "mypy", "mypy_grpc")


def ours() -> list[Path]:
    return sorted((REPOSITORY / PROTOCOLS).glob("*.proto"))


def stubs() -> dict[str, str]:
    """Path in the repository to text, of all that is generated from our protocol files."""
    with tempfile.TemporaryDirectory() as folder:
        outputs = [f"--{kind}_out={'only_async:' if kind == 'mypy_grpc' else ''}{folder}" for kind in KINDS]
        _protoc(REPOSITORY, *outputs, *(str(file.relative_to(REPOSITORY)) for file in ours()))
        files = sorted(Path(folder).rglob("*_pb2*"))
        return {str(file.relative_to(folder)): file.read_text(encoding="utf-8") for file in files}


def our_facts() -> Facts:
    return _facts_of(ours())


def kubelet_facts(go: Go) -> Facts:
    """Of the kubelet that the development cluster's Kubernetes belongs to."""
    answer = go.output("mod", "download", "-json", KUBELET_MODULE, directory=TOOLS / "kubernetes")
    module = Path(json.loads(answer)["Dir"])
    return _facts_of([module / name for name in KUBELETS])


def facts(file: FileDescriptorProto) -> Facts:
    found = dict(_of_messages(file.package, file.message_type))
    for service in file.service:
        found |= {f"{file.package}.{service.name}.{method.name}": _call(method) for method in service.method}
    return found


def _facts_of(files: Sequence[Path]) -> Facts:
    """Each is compiled by itself: they share no names, and the kubelet's are all called alike."""
    found: Facts = {}
    for file in files:
        with tempfile.NamedTemporaryFile() as output:
            _protoc(file.parent, f"--descriptor_set_out={output.name}", file.name)
            described = FileDescriptorSet.FromString(Path(output.name).read_bytes())
        for each in described.file:
            found |= facts(each)
    return found


def _of_messages(scope: str, messages: Sequence[DescriptorProto]) -> Iterator[tuple[str, str]]:
    for message in messages:
        name = f"{scope}.{message.name}"
        yield name, "message"
        for field in message.field:
            yield f"{name}.{field.name}", _field(field)
        yield from _of_messages(name, message.nested_type)


def _field(field: FieldDescriptorProto) -> str:
    kind = field.type_name or FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    repeated = "repeated " if field.label == FieldDescriptorProto.LABEL_REPEATED else ""
    optional = "optional " if field.proto3_optional else ""
    return f"{repeated}{optional}{kind.removeprefix('.')} {field.number}"


def _call(method: MethodDescriptorProto) -> str:
    taken = f"{'stream ' if method.client_streaming else ''}{method.input_type.removeprefix('.')}"
    given = f"{'stream ' if method.server_streaming else ''}{method.output_type.removeprefix('.')}"
    return f"{taken} -> {given}"


def _protoc(folder: Path, *arguments: str) -> None:
    """The plugins that make typed stubs are programs beside our interpreter."""
    programs = Path(sys.executable).parent
    done = subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", *arguments],
        cwd=folder,
        env={**os.environ, "PATH": f"{programs}:{os.environ.get('PATH', '')}"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BuildError(f"protocol files could not be compiled: {done.stderr.strip()}")
