"""etcd, the API server, the controller manager and the scheduler: their files and their command lines.

Guarantees   Everything listens on loopback alone, with RBAC on. Data is thrown away with the cluster, so nothing is
             synced to disk. The API server's audit log holds every request.
"""

from __future__ import annotations

from pathlib import Path

from devcluster.build import Binaries
from devcluster.certificates import Authority, KeyPairFiles, signing_keys, write_private
from devcluster.kubeconfig import write_kubeconfig
from devcluster.paths import Layout
from devcluster.ports import Ports
from devcluster.probe import http_ready
from devcluster.process import Command
from devcluster.supervisor import Launch, Ready
from gpustack_op.runtime.config import ClientConfig

ADMINISTRATORS = "system:masters"
"""The group that RBAC lets do everything."""

ETCD, API_SERVER, CONTROLLER_MANAGER, SCHEDULER, CLIENTS = range(5)
"""Stages: stopped from the last to the first."""

AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
"""


def administrator(layout: Layout) -> ClientConfig:
    """How a program that may do everything reaches a running control plane."""
    folder = layout.certificates
    files = KeyPairFiles(folder / "admin.crt", folder / "admin.key")
    return _client_config(layout.server.read_text(), folder / "ca.crt", files)


def _client_config(server: str, authority: Path, files: KeyPairFiles) -> ClientConfig:
    return ClientConfig(server=server, ca_file=authority, certificate_file=files.certificate, key_file=files.key)


class ControlPlane:
    """One control plane. Making the object writes its files; the methods say how to run each part."""

    def __init__(self, layout: Layout, binaries: Binaries, ports: Ports) -> None:
        self._layout = layout
        self._binaries = binaries
        self._ports = ports
        self._authority = Authority("devcluster-ca")
        self._folder = layout.certificates
        self.serving = self._authority.server("127.0.0.1", "localhost", "kubernetes.default.svc").write(
            self._folder, "serving"
        )
        self.authority_file.write_bytes(self._authority.certificate)
        private, public = signing_keys()
        write_private(self._folder / "service-account.key", private)
        (self._folder / "service-account.pub").write_bytes(public)
        (self._folder / "audit-policy.yaml").write_text(AUDIT_POLICY)
        self._authority.client("admin", ADMINISTRATORS).write(self._folder, "admin")
        self.kubeconfig("admin", ADMINISTRATORS, path=layout.kubeconfig)
        layout.server.write_text(self.server)

    @property
    def host(self) -> str:
        return "127.0.0.1"

    @property
    def port(self) -> int:
        return self._ports["kube-apiserver"]

    @property
    def server(self) -> str:
        return f"https://{self.host}:{self.port}"

    @property
    def authority_file(self) -> Path:
        """The certificate that the API server is verified by."""
        return self._folder / "ca.crt"

    def client(self, user: str, *groups: str) -> ClientConfig:
        """Lets our own code in as this user."""
        files = self._authority.client(user, *groups).write(self._folder, user.replace(":", "-"))
        return _client_config(self.server, self.authority_file, files)

    def kubeconfig(self, user: str, *groups: str, path: Path | None = None) -> Path:
        """Lets a foreign program in as this user."""
        return write_kubeconfig(
            path or self._folder / f"{user.removeprefix('system:')}.kubeconfig",
            cluster=self._layout.name,
            server=self.server,
            authority=self._authority.certificate,
            user=user,
            pair=self._authority.client(user, *groups),
        )

    def etcd(self) -> Launch:
        client, peer = (f"http://127.0.0.1:{self._ports[purpose]}" for purpose in ("etcd", "etcd-peer"))
        arguments = [
            str(self._binaries["etcd"]),
            "--name=devcluster",
            f"--data-dir={self._layout.root / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=devcluster={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]
        return Command(part="etcd", arguments=arguments, stage=ETCD), http_ready(f"{client}/readyz")

    def api_server(self) -> Launch:
        """Without an endpoint reconciler and with an address said outright it needs no interface but loopback."""
        arguments = [
            str(self._binaries["kube-apiserver"]),
            f"--etcd-servers=http://127.0.0.1:{self._ports['etcd']}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}",
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.0.0.0/16",
            f"--tls-cert-file={self.serving.certificate}",
            f"--tls-private-key-file={self.serving.key}",
            f"--client-ca-file={self.authority_file}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._folder / 'service-account.pub'}",
            f"--service-account-signing-key-file={self._folder / 'service-account.key'}",
            "--authorization-mode=RBAC",
            "--allow-privileged=true",
            "--profiling=false",
            "--kubelet-preferred-address-types=InternalIP",
            f"--kubelet-certificate-authority={self.authority_file}",
            f"--audit-policy-file={self._folder / 'audit-policy.yaml'}",
            f"--audit-log-path={self._layout.audit_log}",
        ]
        # With watches open it takes its time to end, and there is nothing worth waiting for.
        command = Command(part="kube-apiserver", arguments=arguments, stage=API_SERVER, grace=2)
        return command, http_ready(f"{self.server}/readyz", authority=self.authority_file)

    def controller_manager(self) -> Launch:
        arguments = [
            *self._client_arguments("kube-controller-manager", ADMINISTRATORS),
            f"--service-account-private-key-file={self._folder / 'service-account.key'}",
            f"--root-ca-file={self.authority_file}",
            "--controllers=*",
        ]
        command = Command(part="kube-controller-manager", arguments=arguments, stage=CONTROLLER_MANAGER)
        return command, self._secure_ready("kube-controller-manager")

    def scheduler(self) -> Launch:
        command = Command(part="kube-scheduler", arguments=self._client_arguments("kube-scheduler"), stage=SCHEDULER)
        return command, self._secure_ready("kube-scheduler")

    def _client_arguments(self, program: str, *groups: str) -> list[str]:
        """What the controller manager and the scheduler are told alike."""
        kubeconfig = self.kubeconfig(f"system:{program}", *groups)
        return [
            str(self._binaries[program]),
            f"--kubeconfig={kubeconfig}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._ports[program]}",
            f"--tls-cert-file={self.serving.certificate}",
            f"--tls-private-key-file={self.serving.key}",
            "--profiling=false",
        ]

    def _secure_ready(self, program: str) -> Ready:
        return http_ready(f"https://127.0.0.1:{self._ports[program]}/healthz", authority=self.authority_file)
