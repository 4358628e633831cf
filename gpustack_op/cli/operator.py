"""`gpustack-operator`: the control plane's one process."""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence

from gpustack_op.api.worker import GROUP, SETTINGS_GROUP
from gpustack_op.operator.cleanup import Cleanup
from gpustack_op.operator.controllers import Parts, all_controllers
from gpustack_op.operator.informers import Informers
from gpustack_op.operator.node_states import NodeStates
from gpustack_op.operator.settings.catalog import seeds
from gpustack_op.operator.settings.live import LiveSettings
from gpustack_op.operator.settings.reconciler import SettingsReconciler, settings_controller
from gpustack_op.operator.settings.sources import Sources
from gpustack_op.operator.webhooks.hooks import add_webhooks
from gpustack_op.operator.workload_fit import FitPin
from gpustack_op.runtime.cache import Caches
from gpustack_op.runtime.cache_metrics import CacheCollector
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.config import ClientConfig, ConfigError
from gpustack_op.runtime.events import Recorder
from gpustack_op.runtime.leader_election import ElectionOptions
from gpustack_op.runtime.logging import configure, logger
from gpustack_op.runtime.manager import Manager, ManagerOptions, TaskDiedError, split_address
from gpustack_op.runtime.metrics import Metrics
from gpustack_op.runtime.webhook.registration import Address, ByService, ByUrl
from gpustack_op.runtime.webhook.server import Bind
from gpustack_op.scheduling.names import SYSTEM_NAMESPACE

NAME = "gpustack-operator"
WEBHOOK_SERVICE = "gpustack-operator-webhook"

REQUEST_BUDGET = 5.0
"""Seconds that one request may take with its repetitions: a reconcile that gives up sooner makes room for others."""

log = logger("operator")


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    configure(options.log_format, options.log_level)
    try:
        asyncio.run(clean_up(options) if options.command == "cleanup" else run(options))
    except (ConfigError, ValueError) as error:
        sys.exit(f"{NAME}: {error}")
    except TaskDiedError:
        sys.exit(1)  # the log has told what died


def parser() -> argparse.ArgumentParser:
    flags = argparse.ArgumentParser(prog=NAME, description=__doc__)
    flags.add_argument(
        "command",
        nargs="?",
        choices=("run", "cleanup"),
        default="run",
        help="run: the operator (default). cleanup: remove what it made, once neither it nor an agent runs any more",
    )
    flags.add_argument("--kubeconfig", help="where to find the API server; default: in-cluster variables and files")
    flags.add_argument("--namespace", default=SYSTEM_NAMESPACE, help="the operator's own namespace")
    flags.add_argument("--metrics-bind", default=":8080", help="host:port of /metrics and /readyz; empty for none")
    flags.add_argument("--health-bind", default=":8081", help="host:port of /healthz; empty for none")
    flags.add_argument("--webhook-bind", default=":9443", help="host:port of the webhook server")
    flags.add_argument("--webhook-url", help="register webhooks by this URL, for a process outside the cluster")
    flags.add_argument("--leader-elect", action=argparse.BooleanOptionalAction, default=True, help="one replica leads")
    flags.add_argument("--patience", type=float, default=60.0, help="seconds that cleanup waits for queues to drain")
    flags.add_argument("--log-format", choices=("json", "console"), default="json")
    flags.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info")
    return flags


async def run(options: argparse.Namespace) -> None:
    """Assemble everything, and run it until told to stop."""
    config = await client_config(options.kubeconfig)
    metrics = Metrics()
    requests = metrics.rest_client_requests()

    def observe(code: str, method: str, host: str) -> None:
        requests.labels(code=code, method=method, host=host).inc()

    async with (
        Client(config, budget=REQUEST_BUDGET, observe=observe) as client,
        Client(config, observe=observe) as lease_client,
    ):
        caches = Caches(client)
        metrics.registry.register(CacheCollector(caches))
        manager = Manager(client, caches, options=manager_options(options), metrics=metrics, lease_client=lease_client)
        await assemble(manager, client, caches, options).run()


async def clean_up(options: argparse.Namespace) -> None:
    async with Client(await client_config(options.kubeconfig)) as client:
        cleanup = Cleanup(client, namespace=options.namespace, patience=options.patience, say=print)
        if not await cleanup.run():
            sys.exit(1)


def assemble(manager: Manager, client: Client, caches: Caches, options: argparse.Namespace) -> Manager:
    """Everything that runs; nothing does yet."""
    namespace = options.namespace
    recorder = Recorder(client, controller="gpustack.ai/operator", instance=identity(), metrics=manager.metrics)
    manager.add_runnable(recorder)
    informers = Informers.of(caches, namespace)
    sources = Sources.of(caches, namespace)
    stored_first = environment_seeds()
    settings = LiveSettings(sources, seeds=stored_first)
    states = NodeStates(informers, settings, namespace=namespace, clock=time.monotonic)
    parts = Parts(informers, client, recorder, settings, states, namespace)
    for controller in all_controllers(parts):
        manager.add_controller(controller)
    keeping = SettingsReconciler(sources, client, parts.writer("settings"), recorder, seeds=stored_first)
    manager.add_controller(settings_controller(keeping))
    bind = Bind(*split_address(options.webhook_bind))
    fit = FitPin(informers, settings)
    add_webhooks(manager, client, caches, informers, address(options), bind, namespace=namespace, fit=fit)
    return manager


def environment_seeds() -> Mapping[str, str]:
    texts, complaints = seeds(os.environ)
    for complaint in complaints:
        log.warning("settings.bad_environment", problem=complaint)
    return texts


def manager_options(options: argparse.Namespace) -> ManagerOptions:
    election = ElectionOptions(options.namespace, NAME, identity()) if options.leader_elect else None
    return ManagerOptions(
        metrics_bind=options.metrics_bind,
        health_bind=options.health_bind,
        own_groups=(GROUP, SETTINGS_GROUP),
        election=election,
    )


async def client_config(kubeconfig: str | None) -> ClientConfig:
    return await ClientConfig.from_kubeconfig(kubeconfig) if kubeconfig else ClientConfig.from_environment(os.environ)


def address(options: argparse.Namespace) -> Address:
    return ByUrl(options.webhook_url) if options.webhook_url else ByService(WEBHOOK_SERVICE, options.namespace)


def identity() -> str:
    return f"{socket.gethostname()}_{os.getpid()}"
