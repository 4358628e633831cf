"""What runs on this machine on behalf of one cluster."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from devcluster.paths import Layout


def of_cluster(layout: Layout) -> list[int]:
    """Processes that were started with a file of the cluster, its supervisor included."""
    marks = (str(layout.root) + "/", f"--name={layout.name}\0")
    return [pid for pid, command in _commands() if any(mark in command for mark in marks)]


def in_group(group: int) -> list[int]:
    """Processes whose group is led, or was led, by this one."""
    return [pid for pid, _ in _commands() if _group(pid) == group]


def _commands() -> list[tuple[int, str]]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (folder / "cmdline").read_text()
            if command:
                found.append((int(folder.name), command))
    return found


def _group(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[2])
    return 0
