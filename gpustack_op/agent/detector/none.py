"""A machine without accelerators: the CPU as the kernel tells it, and never a card."""

from __future__ import annotations

from pathlib import Path

from gpustack_op.agent import cpuinfo
from gpustack_op.agent.detector.base import Detection, DetectionError, Host


class NoDetector:
    """Asks the kernel once; neither the CPU nor the boot changes while the agent lives."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._host: Host | None = None

    def host(self) -> Host:
        if self._host is None:
            self._host = self._read()
        return self._host

    def detect(self) -> Detection:
        return Detection()

    def _read(self) -> Host:
        try:
            boot_id = (self._root / "proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
            return Host(cpuinfo.read(self._root), boot_id)
        except (OSError, UnicodeDecodeError) as error:
            raise DetectionError(f"the kernel cannot be asked about the CPU: {error}") from error
