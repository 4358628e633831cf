"""What a node's kubelet and NFD's worker would publish of a machine, as pure functions of its inventory."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Mapping
from typing import Any, Final

from gpustack_op.agent.inventory import Machine
from gpustack_op.scheduling.manufacturers import MANUFACTURERS

Json = dict[str, Any]

PCI_CLASS: Final = "0302"
"""3D controller, which accelerators without a display are."""

LEASE_SECONDS: Final = 40
"""The kubelet's own figure; it renews every quarter of it."""

NAMESPACE: Final = "nfd"
FEATURES: Final = "feature.node.kubernetes.io"

_CONDITIONS: Final = (
    ("Ready", "True", "KubeletReady", "the simulated kubelet is posting ready status"),
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "the simulated kubelet has sufficient memory"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "the simulated kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "the simulated kubelet has sufficient PIDs"),
)


def node(machine: Machine, *, kubelet_version: str, now: datetime.datetime) -> Json:
    return {
        "metadata": {"name": machine.node, "labels": node_labels(machine)},
        "status": node_status(machine, kubelet_version=kubelet_version, now=now),
    }


def node_labels(machine: Machine) -> dict[str, str]:
    return {
        "kubernetes.io/hostname": machine.node,
        "kubernetes.io/os": machine.os,
        "kubernetes.io/arch": machine.arch,
    }


def node_status(machine: Machine, *, kubelet_version: str, now: datetime.datetime) -> Json:
    """Nothing is reserved for the system: capacity and allocatable are the same."""
    resources = {
        "cpu": str(machine.cpu.cores),
        "memory": machine.memory,
        "ephemeral-storage": machine.ephemeral_storage,
        "pods": str(machine.pods),
    }
    return {
        "capacity": resources,
        "allocatable": resources,
        "conditions": conditions(now),
        "addresses": [
            {"type": "InternalIP", "address": "127.0.0.1"},
            {"type": "Hostname", "address": machine.node},
        ],
        "nodeInfo": _node_info(machine, kubelet_version),
    }


def conditions(now: datetime.datetime) -> list[Json]:
    time = now.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": time,
            "lastTransitionTime": time,
        }
        for kind, status, reason, message in _CONDITIONS
    ]


def lease(name: str, uid: str) -> Json:
    """The Node owns its Lease, so that both go together."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
    return {
        "metadata": {"name": name, "namespace": "kube-node-lease", "ownerReferences": [owner]},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS},
    }


def renewal(now: datetime.datetime) -> Json:
    """Leases count microseconds, unlike all other times."""
    return {"spec": {"renewTime": now.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")}}


def node_feature(machine: Machine, uid: str, *, version: str) -> Json:
    """Named like its node. NFD's own collector removes it after the node; here the Node owns it."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": machine.node, "uid": uid}
    return {
        "metadata": {
            "name": machine.node,
            "namespace": NAMESPACE,
            "labels": {"nfd.node.kubernetes.io/node-name": machine.node},
            "annotations": {"nfd.node.kubernetes.io/worker.version": version},
            "ownerReferences": [owner],
        },
        "spec": {"labels": feature_labels(machine), "features": features(machine)},
    }


def feature_labels(machine: Machine) -> dict[str, str]:
    """Those of NFD's usual labels that a machine's inventory can answer, PCI devices by vendor."""
    labels = {f"{FEATURES}/cpu-model.{key}": value for key, value in _cpu_model(machine).items()}
    labels |= {f"{FEATURES}/kernel-version.{key}": value for key, value in _kernel(machine).items()}
    labels |= {f"{FEATURES}/system-os_release.{key}": value for key, value in _os_release(machine).items()}
    labels |= {f"{FEATURES}/pci-{vendor}.present": "true" for vendor in pci_vendors(machine)}
    return labels


def features(machine: Machine) -> Json:
    attributes = {
        "cpu.model": _cpu_model(machine),
        "kernel.version": _kernel(machine),
        "system.name": {"nodename": machine.node},
        "system.osrelease": _os_release(machine),
    }
    devices = [{"attributes": {"class": PCI_CLASS, "vendor": vendor}} for vendor in pci_vendors(machine)]
    return {
        "flags": {},
        "attributes": {name: {"elements": elements} for name, elements in attributes.items()},
        "instances": {"pci.device": {"elements": devices}},
    }


def pci_vendors(machine: Machine) -> list[str]:
    """One entry a card, in the inventory's order."""
    rows = (MANUFACTURERS.get(card.manufacturer) for card in machine.accelerators)
    return [row.pci_vendor for row in rows if row is not None]


def extended(resources: Mapping[str, str]) -> dict[str, str]:
    """Those of the resources that somebody else than the kubelet declared: they are named with a domain."""
    return {name: amount for name, amount in resources.items() if "/" in name}


def _cpu_model(machine: Machine) -> dict[str, str]:
    cpu = machine.cpu
    facts = {"vendor_id": cpu.vendor, "family": cpu.family, "id": cpu.model}
    return {key: str(value) for key, value in facts.items() if value not in (None, "")}


def _kernel(machine: Machine) -> dict[str, str]:
    if not machine.kernel:
        return {}
    numbers = [*machine.kernel.partition("-")[0].split("."), "", ""]
    facts = {"full": machine.kernel, "major": numbers[0], "minor": numbers[1], "revision": numbers[2]}
    return {key: value for key, value in facts.items() if value}


def _os_release(machine: Machine) -> dict[str, str]:
    release = machine.os_release
    major, _, minor = release.version_id.partition(".")
    facts = {
        "ID": release.id,
        "VERSION_ID": release.version_id,
        "VERSION_ID.major": major,
        "VERSION_ID.minor": minor,
    }
    return {key: value for key, value in facts.items() if value}


def _node_info(machine: Machine, kubelet_version: str) -> Json:
    identity = str(uuid.uuid5(uuid.NAMESPACE_DNS, machine.node))
    return {
        "machineID": identity.replace("-", ""),
        "systemUUID": identity,
        "bootID": machine.boot_id or identity,
        "kernelVersion": machine.kernel,
        "osImage": f"{machine.os_release.id} {machine.os_release.version_id}".strip(),
        "containerRuntimeVersion": "simulated://1",
        "kubeletVersion": kubelet_version,
        "kubeProxyVersion": kubelet_version,
        "operatingSystem": machine.os,
        "architecture": machine.arch,
    }
