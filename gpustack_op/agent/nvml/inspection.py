"""What NVIDIA's driver lacks on this machine, and what to do about it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pynvml

from gpustack_op.agent.nvml.errors import Meaning, NvmlError
from gpustack_op.agent.nvml.library import Library, asked, call
from gpustack_op.agent.nvml.text import text_of
from gpustack_op.agent.preflight import Finding

MODULES: Final = ("nvidia", "nvidia_uvm")
"""Kernel modules without which no container computes: the driver, and its memory management."""

REMEDIES: Final = {
    Meaning.MISMATCH: "reboot the node, or reload the kernel modules: a driver was installed over the running one",
    Meaning.FORBIDDEN: "run the agent privileged, under NVIDIA's runtime",
}

NOT_FOUND = "install the driver; in a Pod, run under NVIDIA's runtime, or name the library with --nvml-library"


def findings(library: Library, root: Path) -> list[Finding]:
    return [_modules(root), _library(library, _kernel_version(root))]


def _modules(root: Path) -> Finding:
    """Where /proc/modules cannot be read, or the driver is compiled in, nothing is amiss for sure."""
    try:
        loaded = {line.split()[0] for line in (root / "proc/modules").read_text(encoding="utf-8").splitlines() if line}
    except (OSError, UnicodeDecodeError) as error:
        return Finding("kernel modules", f"unknown: {error}")
    missing = [module for module in MODULES if module not in loaded]
    if missing:
        return Finding("kernel modules", f"not loaded: {', '.join(missing)}", f"run modprobe {' '.join(missing)}")
    return Finding("kernel modules", ", ".join(MODULES))


def _library(library: Library, kernel: str) -> Finding:
    try:
        library.open()
        try:
            return _versions(kernel)
        finally:
            library.close()
    except NvmlError as error:
        remedy = REMEDIES.get(error.meaning, NOT_FOUND)
        return Finding("driver", str(error), remedy)


def _versions(kernel: str) -> Finding:
    own = text_of(lambda: asked(pynvml.nvmlSystemGetNVMLVersion)) or "unknown"
    driver = text_of(lambda: asked(pynvml.nvmlSystemGetDriverVersion)) or "unknown"
    count = call(pynvml.nvmlDeviceGetCount)
    fact = f"version {driver}, library {own}, {count} accelerators"
    if kernel and driver != kernel:
        return Finding("driver", f"{fact}, kernel module {kernel}", REMEDIES[Meaning.MISMATCH])
    if not count:
        return Finding(
            "driver", fact, "look with nvidia-smi and lspci; a virtual machine needs its card passed through"
        )
    return Finding("driver", fact)


def _kernel_version(root: Path) -> str:
    """Of the module that is loaded; empty where it does not tell."""
    try:
        told = (root / "proc/driver/nvidia/version").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
    found = re.search(r"\b(\d{3,}(?:\.\d+)+)\b", told)
    return found[1] if found else ""
