"""The folders of one kubelet, as its plugins and its tests find them below `--kubelet-root`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpustack_op.api.meta import KubeObject

LONGEST_SOCKET = 107
"""Bytes that the kernel takes for a Unix socket's path."""


@dataclass(frozen=True, slots=True)
class Folders:
    root: Path

    def create(self) -> None:
        for folder in (self.plugins, self.resources, self.pods):
            folder.mkdir(parents=True, exist_ok=True, mode=0o750)

    @property
    def plugins(self) -> Path:
        return self.root / "device-plugins"

    @property
    def registration(self) -> Path:
        return self.plugins / "kubelet.sock"

    @property
    def resources(self) -> Path:
        return self.root / "pod-resources"

    @property
    def pod_resources(self) -> Path:
        return self.resources / "kubelet.sock"

    @property
    def checkpoint(self) -> Path:
        return self.plugins / "kubelet_internal_checkpoint"

    @property
    def unfinished_checkpoint(self) -> Path:
        """What is written before it takes the checkpoint's place."""
        return self.plugins / ".kubelet_internal_checkpoint.unfinished"

    @property
    def pods(self) -> Path:
        return self.root / "pods"

    def pod(self, uid: str) -> Path:
        return self.pods / uid

    def container(self, uid: str, name: str) -> Path:
        """Holds its logs, what it was given, and its root folder."""
        return self.pod(uid) / "containers" / name

    # --- for tests

    def lose_checkpoint(self) -> None:
        self.checkpoint.unlink(missing_ok=True)

    def corrupt_checkpoint(self) -> None:
        """Its checksum is wrong from now on."""
        text = self.checkpoint.read_text()
        self.checkpoint.write_text(text.replace('"Checksum":', '"Checksum":1'))

    def refuse_checkpoints(self, refused: bool = True) -> None:
        """Lets writing fail as on a full disk. A folder in the file's place does it for every user."""
        if refused:
            self.unfinished_checkpoint.mkdir()
        else:
            self.unfinished_checkpoint.rmdir()

    def given(self, pod: KubeObject, container: str) -> dict[str, Any]:
        """What the container got at its last start; see `given.Given`."""
        read: dict[str, Any] = json.loads((self.container(pod.uid, container) / "given.json").read_text())
        return read
