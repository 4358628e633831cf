"""The command `hack/dev`."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from devcluster import daemon, state
from devcluster.build import build
from devcluster.cluster import Scope
from devcluster.compile import Progress
from devcluster.errors import ClusterError, NotUpError
from devcluster.handle import RunningCluster
from devcluster.oracle import oracle
from devcluster.paths import DEFAULT_NAME, MACHINES, NAME_VARIABLE, Layout, selected_name
from devcluster.supervisor import PartStatus


def run(arguments: Sequence[str]) -> int:
    """Carries out any command but `kubectl`, which `kubectl.become` does; gives the exit status."""
    options = _parser().parse_args(arguments)
    return int(options.run(options) or 0)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _build(_options: argparse.Namespace) -> None:
    for folder in build(Progress()).folders.values():
        print(folder)
    print(oracle(Progress()).parent)


def _up(options: argparse.Namespace) -> None:
    build(Progress())
    layout = Layout.of(options.name)
    machines = options.machines or sorted(MACHINES.glob("*.yaml"))
    started = time.monotonic()
    daemon.up(layout, scope=Scope(options.scope), machines=machines, say=_say)
    named = "" if options.name == selected_name() else f" --name {options.name}"
    _say(f'cluster "{layout.name}" is up after {time.monotonic() - started:.1f} s')
    _say(f"  hack/dev{named} kubectl get nodes\n  export KUBECONFIG={layout.kubeconfig}\n  hack/dev{named} down")


def _down(options: argparse.Namespace) -> None:
    daemon.down(Layout.of(options.name), _say)


def _status(options: argparse.Namespace) -> int:
    layout = Layout.of(options.name)
    if not state.is_up(layout):
        _tell_of_the_dead(layout)
    parts = asyncio.run(RunningCluster(layout).status())
    print(table(parts))
    failed = [part for part in parts if part.state == "ended"]
    for part in failed:
        print(f"\n{part.part} {part.ending}; its last lines:\n{part.tail}")
    return 1 if failed else 0


def _tell_of_the_dead(layout: Layout) -> NoReturn:
    unclean = layout.pids.exists()
    how = "its supervisor died; end what may be left with: down" if unclean else "start it with: up"
    raise NotUpError(f'cluster "{layout.name}" is not up: {how}')


def table(parts: Sequence[PartStatus]) -> str:
    rows = [("PART", "STATE", "PID", "SINCE")]
    for part in parts:
        since = f"{part.seconds:.0f} s" if part.pid else part.ending
        rows.append((part.part, part.state, str(part.pid or ""), since))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = ("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _logs(options: argparse.Namespace) -> NoReturn:
    layout = Layout.of(options.name)
    log = layout.log(options.part)
    if not log.exists():
        there = ", ".join(sorted(path.stem for path in layout.logs.glob("*.log"))) or "none"
        raise ClusterError(f"no log is named {options.part}; there are {there}")
    follow = ["-F"] if options.follow else []
    os.execvp("tail", ["tail", "-n", str(options.lines), *follow, str(log)])


def _parser() -> argparse.ArgumentParser:
    about = "A development cluster of plain processes: control plane, Kueue, NFD and simulated nodes."
    parser = argparse.ArgumentParser(prog="hack/dev", description=about)
    which = f"which cluster is meant; ${NAME_VARIABLE} says it too, and without either it is {DEFAULT_NAME}"
    parser.add_argument("--name", default=selected_name(), help=which)
    name = argparse.ArgumentParser(add_help=False)
    name.add_argument("--name", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(word: str, run: object, about: str) -> argparse.ArgumentParser:
        made = commands.add_parser(word, parents=[name], help=about, description=about)
        made.set_defaults(run=run)
        return made

    command("build", _build, "build what is not in the cache yet: about 20 minutes the first time on two cores")
    up = command("up", _up, "start a cluster and leave it running")
    up.add_argument("--parts", dest="scope", choices=[scope.value for scope in Scope], default=Scope.PLATFORM.value)
    up.add_argument("machines", nargs="*", type=Path, help="inventory files; hack/machines/*.yaml unless given")
    command("down", _down, "end it, and leave nothing but its logs")
    command("status", _status, "what runs, and the last words of what does not")
    logs = command("logs", _logs, "what a part has logged")
    logs.add_argument("part", metavar="PART", help="as `status` names it, or supervisor")
    logs.add_argument("-f", "--follow", action="store_true", help="go on as it grows")
    logs.add_argument("-n", "--lines", type=int, default=200)
    commands.add_parser("kubectl", help="kubectl against the cluster; all that follows is kubectl's")
    return parser
