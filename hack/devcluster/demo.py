"""The command `hack/demo`: everything at once, for somebody who sees it for the first time.

Guarantees   When it succeeds, the cluster has settled and stays up. When it fails or is interrupted, it leaves no
             process; a failure names the part and the tail of its log. Run again it starts nothing and shows what is
             there.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Sequence
from typing import Final

from devcluster import daemon, state
from devcluster.build import build
from devcluster.cluster import Scope
from devcluster.compile import Progress
from devcluster.errors import ClusterError, NotUpError, PartError
from devcluster.handle import RunningCluster
from devcluster.kubectl import Kubectl
from devcluster.paths import MACHINES, Layout, selected_name
from devcluster.programs import OPERATOR_PART
from devcluster.settle import settled
from gpustack_op.agent import inventory

SHOWN: Final = ("resourceflavor", "clusterqueue", "instancetype", "instancetypeflavor", "devices")

INTERRUPTED: Final = 130
"""The exit status of a command that SIGINT has ended."""

NEXT: Final = """\
It stays up. From this folder, use kubectl on it so:

  ./hack/dev kubectl get instancetypes
  export KUBECONFIG={kubeconfig}    # for a kubectl of your own

Take a node out of its pools, and bring it back:

  ./hack/dev kubectl -n gpustack-system patch nodefeature node-a10g-gpustack-worker \\
      --type=merge -p '{{"spec":{{"labels":{{"gpustack.ai/managed":"false"}}}}}}'
  ./hack/dev kubectl get instancetypes
  ./hack/dev kubectl -n gpustack-system patch nodefeature node-a10g-gpustack-worker \\
      --type=merge -p '{{"spec":{{"labels":{{"gpustack.ai/managed":"true"}}}}}}'

Add a pool of another size, and remove it:

  ./hack/dev kubectl apply -f docs/examples/a10g-12c128g.yaml
  ./hack/dev kubectl get instancetypes
  ./hack/dev kubectl delete instancetype a10g-12c128g

Tell CPUs apart, and stop doing so (types that were derived meanwhile stay until you delete them):

  ./hack/dev kubectl -n gpustack-system patch secret gpustack-settings --type=merge \\
      -p '{{"data":{{"instance-type-aware-cpu-manufacturer":"'"$(printf true | base64)"'"}}}}'
  ./hack/dev kubectl get instancetypes,instancetypeflavors
  ./hack/dev kubectl -n gpustack-system patch setting instance-type-aware-cpu-manufacturer \\
      --type=merge -p '{{"spec":{{"value":"false"}}}}'

docs/getting-started.md explains what you see. End it with: ./hack/demo --down
"""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        layout = Layout.of(selected_name())
        if options.down:
            _down(layout)
        else:
            _show(layout, running=_start(layout))
    except ClusterError as error:
        _say(f"hack/demo: {error}")
        return 1
    except KeyboardInterrupt:
        _say("hack/demo: interrupted")
        return INTERRUPTED
    return 0


def _start(layout: Layout) -> bool:
    """Whether it ran already. Otherwise it has been started, and has settled."""
    if state.is_up(layout):
        asyncio.run(_check(RunningCluster(layout)))
        return True
    build(Progress())
    started = time.monotonic()
    _say("starting a control plane, Kueue, NFD, four simulated nodes, the operator and four agents")
    machines = sorted(MACHINES.glob("*.yaml"))
    daemon.up(layout, scope=Scope.ALL, machines=machines, say=_say)
    try:
        _say(f"all parts run after {time.monotonic() - started:.1f} s; waiting until nothing changes any more")
        asyncio.run(settled(RunningCluster(layout), [inventory.load(each) for each in machines]))
    except BaseException:
        daemon.down(layout, _say)
        raise
    _say(f"settled after {time.monotonic() - started:.1f} s\n")
    return False


async def _check(cluster: RunningCluster) -> None:
    """That what runs is a demo, and runs well."""
    try:
        parts = await cluster.status()
    except NotUpError as error:
        raise ClusterError(f'cluster "{cluster.layout.name}" is just starting or ending; try again') from error
    for part in parts:
        if part.state == "ended":
            raise PartError(part.part, f"{part.ending or 'ended'}; start afresh with: hack/demo --down", part.tail)
    if OPERATOR_PART not in {part.part for part in parts}:
        raise ClusterError(f'cluster "{cluster.layout.name}" runs without the operator; end it with: hack/demo --down')


def _show(layout: Layout, *, running: bool) -> None:
    if running:
        _say("the demo is up already; this is how it looks now\n")
    for kind, table in zip(SHOWN, asyncio.run(_tables(Kubectl(layout))), strict=True):
        print(f"$ kubectl get {kind}\n{table}")
    print(NEXT.format(kubeconfig=layout.kubeconfig), end="", flush=True)


async def _tables(kubectl: Kubectl) -> list[str]:
    return [await kubectl("get", kind) for kind in SHOWN]


def _down(layout: Layout) -> None:
    was_up = state.is_up(layout)
    daemon.down(layout, _say)
    _say("the demo has ended" if was_up else "no demo is up")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    about = "Starts a whole cluster on this machine and shows the pools that the operator makes of its nodes."
    parser = argparse.ArgumentParser(prog="hack/demo", description=about)
    parser.add_argument("--down", action="store_true", help="end it")
    return parser


if __name__ == "__main__":
    sys.exit(main())
