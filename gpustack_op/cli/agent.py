"""`gpustack-agent`: one on every Linux node."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpustack_op.agent.announcements import Announcements
from gpustack_op.agent.detector.base import Detector
from gpustack_op.agent.detector.registry import DETECTORS, OptionError, Options, detector
from gpustack_op.agent.devices_writer import DevicesWriter
from gpustack_op.agent.informers import AgentInformers
from gpustack_op.agent.monitor import Monitor
from gpustack_op.agent.plugin.ground import Cluster, Machine
from gpustack_op.agent.preflight import KUBELET, LOCKS, STATE, Folders, Preflight
from gpustack_op.agent.reporter import Reporter, nobody_settles
from gpustack_op.api.worker import GROUP, SETTINGS_GROUP
from gpustack_op.runtime import logging
from gpustack_op.runtime.apply import Writer
from gpustack_op.runtime.cache import Caches
from gpustack_op.runtime.cache_metrics import CacheCollector
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.config import ClientConfig, ConfigError
from gpustack_op.runtime.controller import Controller, Request, mapped, primary
from gpustack_op.runtime.events import Recorder
from gpustack_op.runtime.manager import Manager, ManagerOptions, TaskDiedError, split_address
from gpustack_op.runtime.metrics import Metrics
from gpustack_op.scheduling.names import SYSTEM_NAMESPACE

if TYPE_CHECKING:
    from gpustack_op.agent.plugin.wiring import DevicePlugin

FIELD_MANAGER = "gpustack-agent"

PREFLIGHT = "preflight"
"""First argument of the command that only looks whether the node is ready."""

MISUSE = 2
"""Exit code when the program was started wrongly."""

log = logging.logger("agent")


@dataclass(frozen=True, slots=True)
class Parts:
    """A wired agent, for its program and its tests."""

    manager: Manager
    monitor: Monitor


def main(arguments: Sequence[str] | None = None) -> None:
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] == [PREFLIGHT]:
        sys.exit(_looked(parser(os.environ).parse_args(given[1:])))
    options = parser(os.environ).parse_args(given)
    logging.configure(options.log_format, options.log_level)
    try:
        _check(options)
        config = ClientConfig.from_environment(os.environ)
        cards = _detector(options)
    except (ConfigError, OptionError, ValueError) as error:
        print(f"gpustack-agent: {error}", file=sys.stderr)
        sys.exit(MISUSE)
    _preflight(options, cards).log()
    try:
        asyncio.run(_run(options, config, cards))
    except TaskDiedError:
        sys.exit(1)  # told in the log where it happened


def _looked(options: argparse.Namespace) -> int:
    """The preflight as a command: a line for each finding, and whether all is well."""
    try:
        found = _preflight(options, _detector(options)).findings()
    except OptionError as error:
        print(f"gpustack-agent: {error}", file=sys.stderr)
        return MISUSE
    print("\n".join(map(str, found)))
    return int(any(finding.remedy for finding in found))


def _detector(options: argparse.Namespace) -> Detector:
    given = Options(options.inventory, options.nvml_library, pci_check=not options.no_pci_check)
    return detector(options.detector, given)


def _preflight(options: argparse.Namespace, cards: Detector) -> Preflight:
    return Preflight(cards, _folders(options) if DETECTORS[options.detector].finds_cards else None)


def _folders(options: argparse.Namespace) -> Folders | None:
    """None for an agent that gives out no cards."""
    if options.kubelet_root is None:
        return None
    return Folders(options.kubelet_root, options.state_dir, options.lock_dir)


def parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="gpustack-agent",
        description="Reports the CPU and the accelerators of one node to the cluster. With `preflight` as the first "
        "argument it only says, a line each, what the node lacks for that, and what to do.",
        epilog="The API server is found as in a Pod: by KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT and the "
        "service account's files; GPUSTACK_TOKEN_FILE and GPUSTACK_CA_FILE name other files.",
    )
    given = made.add_argument
    given("--node", default=environment.get("KUBERNETES_NODE_NAME", ""), help="name of the Node [KUBERNETES_NODE_NAME]")
    rows = "; ".join(f"{row.name}: {row.summary}" for row in DETECTORS.values())
    given("--detector", default="none", choices=list(DETECTORS), help=f"how accelerators are found ({rows}) [none]")
    given("--inventory", type=Path, metavar="FILE", help="machine that --detector simulated reports, read on change")
    given("--nvml-library", type=Path, metavar="FILE", help="library that --detector nvidia loads [libnvidia-ml.so.1]")
    given("--no-pci-check", action="store_true", help="load it although no such card is on the PCI bus")
    given(
        "--kubelet-root",
        type=lambda text: Path(text) if text else None,
        metavar="DIR",
        help=f"the kubelet's folder, as a rule {KUBELET}; empty: cards are reported and not given out [empty]",
    )
    given("--state-dir", type=Path, default=STATE, metavar="DIR", help=f"what must outlive the agent [{STATE}]")
    given(
        "--lock-dir",
        type=Path,
        default=LOCKS,
        metavar="DIR",
        help=f"lock that makes one agent the active one [{LOCKS}]",
    )
    given("--namespace", default=SYSTEM_NAMESPACE, help=f"namespace of the NodeFeature [{SYSTEM_NAMESPACE}]")
    given("--metrics-bind", default=":8080", metavar="HOST:PORT", help="/metrics and /readyz; empty for none [:8080]")
    given("--health-bind", default=":8081", metavar="HOST:PORT", help="/healthz; empty for none [:8081]")
    given("--log-format", default="json", choices=["json", "console"], help="how log lines look [json]")
    given("--log-level", default="info", choices=["debug", "info", "warning", "error"], help="least level told [info]")
    return made


def _check(options: argparse.Namespace) -> None:
    if not options.node:
        raise OptionError("no node is named; give --node NAME or set KUBERNETES_NODE_NAME")
    for address in (options.metrics_bind, options.health_bind):
        if address:
            split_address(address)


async def _run(options: argparse.Namespace, config: ClientConfig, cards: Detector) -> None:
    metrics = Metrics()
    requests = metrics.rest_client_requests()
    async with Client(
        config,
        user_agent="gpustack-agent",
        observe=lambda code, method, host: requests.labels(code, method, host).inc(),
    ) as client:
        await build(options, client, cards, metrics).manager.run()


def build(options: argparse.Namespace, client: Client, cards: Detector, metrics: Metrics) -> Parts:
    """Wires one agent; nothing runs yet."""
    caches = Caches(client)
    metrics.registry.register(CacheCollector(caches))
    informers = AgentInformers(caches, node=options.node, namespace=options.namespace)
    recorder = Recorder(client, controller="gpustack.ai/agent", instance=options.node, metrics=metrics)

    def noticed() -> None:
        if given_out:
            given_out.stirred()
        reporter.enqueue(request)

    monitor = Monitor(cards, informers, Announcements(recorder, informers.node), wake=noticed)
    request = Request(options.node)
    with_memory = os.environ.get("GPUSTACK_DEVICES_GROUP_ID_WITH_MEMORY") == "true"
    given_out = _device_plugin(
        _folders(options),
        Machine(cards, lambda: monitor.sight, with_memory=with_memory),
        Cluster(client, caches, informers, recorder, metrics),
        wake=lambda: reporter.enqueue(request),
    )
    reporter = Controller(
        Reporter(
            informers,
            Writer(client, FIELD_MANAGER),
            DevicesWriter(client, FIELD_MANAGER),
            lambda: monitor.sight,
            settle=given_out.bookkeeper.settle if given_out else nobody_settles,
            with_memory=with_memory,
        ),
        [
            primary(informers.nodes),
            mapped(informers.node_features, lambda _: (request,)),
            primary(informers.all_devices),
        ],
    )
    manager = Manager(
        client,
        caches,
        options=ManagerOptions(options.metrics_bind, options.health_bind, own_groups=(GROUP, SETTINGS_GROUP)),
        metrics=metrics,
    )
    manager.readiness.add_check(lambda: None if monitor.sight else "the machine has not been seen yet")
    manager.add_controller(reporter)
    manager.add_runnable(recorder)
    manager.add_runnable(monitor)
    for runnable in given_out.runnables if given_out else ():
        manager.add_runnable(runnable)
    return Parts(manager, monitor)


def _device_plugin(
    folders: Folders | None, machine: Machine, cluster: Cluster, wake: Callable[[], None]
) -> DevicePlugin | None:
    """gRPC costs memory and is loaded only where cards are given out."""
    if folders is None:
        return None
    from gpustack_op.agent.plugin.node import node_device_plugin  # noqa: PLC0415

    return node_device_plugin(folders, machine, cluster, wake)


if __name__ == "__main__":
    main()
