"""Kueue's manager outside a cluster: its command line, its configuration, its CRDs and its webhooks.

Guarantees   Kueue runs with this project's own configuration; only where it listens and where its certificates are
             differs. Webhooks are registered by URL, and only for the kinds that are in use.

Kueue wants a certificate for its metrics under `/etc` unless it manages its certificates itself. A cluster of plain
processes has no business there, so it is told to manage them and finds its Secret filled with good ones: nothing is
left for it to do but to write the authority's certificate, unchanged, where it stands already.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from devcluster.build import Binaries
from devcluster.certificates import Authority, KeyPair, rsa_key
from devcluster.control_plane import ADMINISTRATORS, CLIENTS, ControlPlane
from devcluster.paths import Layout
from devcluster.ports import Ports
from devcluster.probe import http_ready
from devcluster.process import Command
from devcluster.supervisor import Launch
from devcluster.versions import KUEUE

Json = dict[str, Any]

NAMESPACE: Final = "kueue-system"
SERVICE: Final = "kueue-webhook-service"
SECRET: Final = "kueue-webhook-server-cert"
AUTHORITY: Final = "kueue-ca"
"""Names that Kueue's certificate management has built in. Its certificates must carry the last one as a DNS name."""

ACCOUNT: Final = f"system:serviceaccount:{NAMESPACE}:kueue-controller-manager"
"""Who Kueue is, as in a cluster where it is installed by its own manifests: our policies know it by this name."""

VERSION: Final = "v1beta2"
"""The stored version, and the only one that is served here: nobody asks for another, so nothing must be converted."""

FRAMEWORKS: Final[Mapping[str, tuple[str, str]]] = {
    "pod": ("", "pods"),
    "batch/job": ("batch", "jobs"),
    "deployment": ("apps", "deployments"),
    "statefulset": ("apps", "statefulsets"),
}
"""What Kueue calls a framework, and the group and resource that its webhooks watch."""

CONVERTED: Final = ("clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads")
"""Kinds into whose CRD Kueue writes the authority that its conversion webhook is verified by."""


class Kueue:
    def __init__(
        self, layout: Layout, binaries: Binaries, ports: Ports, control_plane: ControlPlane, configuration: Path
    ) -> None:
        self._binaries = binaries
        self._ports = ports
        self._folder = layout.root / "kueue"
        self._authority = Authority(AUTHORITY, key=rsa_key())
        self._serving = self._authority.server(f"{SERVICE}.{NAMESPACE}.svc", "127.0.0.1")
        self._serving.write(self._folder, "tls")
        self._kubeconfig = control_plane.kubeconfig(ACCOUNT, ADMINISTRATORS, path=self._folder / "kubeconfig")
        self._configuration = development_configuration(
            yaml.safe_load(configuration.read_text()),
            health=f"127.0.0.1:{ports['kueue-health']}",
            webhook_port=ports["kueue-webhook"],
            certificates=str(self._folder),
        )

    def launch(self) -> Launch:
        file = self._folder / "config.yaml"
        file.write_text(json.dumps(self._configuration, indent=2))
        arguments = [str(self._binaries["kueue"]), f"--config={file}", "--zap-log-level=2"]
        command = Command(
            part="kueue", arguments=arguments, stage=CLIENTS, environment={"KUBECONFIG": str(self._kubeconfig)}
        )
        return command, http_ready(f"http://127.0.0.1:{self._ports['kueue-health']}/readyz")

    def crds(self) -> list[Json]:
        wanted = self._binaries.manifests(KUEUE, "crds")
        return [served_alone(crd, url=self._url, authority=self._authority.certificate) for crd in wanted]

    def secret(self) -> Json:
        return certificate_secret(self._authority.pair, self._serving)

    def webhooks(self) -> list[Json]:
        """To be registered once Kueue answers: they refuse everything while it does not."""
        frameworks = self._configuration["integrations"]["frameworks"]
        selector = self._configuration["managedJobsNamespaceSelector"]
        return [
            registered(each, frameworks, selector, url=self._url, authority=self._authority.certificate)
            for each in self._binaries.manifests(KUEUE, "webhooks")
        ]

    @property
    def _url(self) -> str:
        return f"https://127.0.0.1:{self._ports['kueue-webhook']}"


def development_configuration(configured: Json, *, health: str, webhook_port: int, certificates: str) -> Json:
    """Our configuration as one process on loopback runs it. Without leader election a restart takes no half minute."""
    return {
        **configured,
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": health},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": webhook_port, "certDir": certificates},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": True, "webhookServiceName": SERVICE, "webhookSecretName": SECRET},
    }


def served_alone(crd: Json, *, url: str, authority: bytes) -> Json:
    """The CRD with its stored version only. Nothing is ever converted, but Kueue insists on the stanza."""
    spec = {**crd["spec"], "versions": [version for version in crd["spec"]["versions"] if version["name"] == VERSION]}
    if spec["names"]["plural"] in CONVERTED:
        client = {"url": f"{url}/convert", "caBundle": _text(authority)}
        webhook = {"conversionReviewVersions": ["v1"], "clientConfig": client}
        spec["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    return {**crd, "spec": spec}


def certificate_secret(authority: KeyPair, serving: KeyPair) -> Json:
    files = {
        "ca.crt": authority.certificate,
        "ca.key": authority.key,
        "tls.crt": serving.certificate,
        "tls.key": serving.key,
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": NAMESPACE},
        "data": {name: _text(content) for name, content in files.items()},
    }


def registered(configuration: Json, frameworks: Iterable[str], selector: Json, *, url: str, authority: bytes) -> Json:
    """The webhook configuration by URL, with the kinds of these frameworks and Kueue's own.

    Whatever Kueue manages in other people's namespaces is left alone in those that the selector excludes: while Kueue
    is away, nothing can be created in the others.
    """
    in_use = {FRAMEWORKS[framework] for framework in frameworks}
    webhooks = []
    for webhook in configuration["webhooks"]:
        kinds = {
            (group, kind) for rule in webhook["rules"] for group in rule["apiGroups"] for kind in rule["resources"]
        }
        own = all(group.endswith("kueue.x-k8s.io") for group, _ in kinds)
        if own or kinds <= in_use:
            client = {"url": url + webhook["clientConfig"]["service"]["path"], "caBundle": _text(authority)}
            webhooks.append({**webhook, "clientConfig": client} | ({} if own else {"namespaceSelector": selector}))
    name = f"kueue-{configuration['metadata']['name']}"
    return {**configuration, "metadata": {"name": name}, "webhooks": webhooks}


def _text(pem: bytes) -> str:
    return base64.b64encode(pem).decode()
