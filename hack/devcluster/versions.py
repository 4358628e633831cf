"""Which foreign programs the development cluster runs, and what they are built from.

Versions are those of the go.mod files under `tools/`, one module each, so that no program changes another's
dependencies. The stamps are what the programs' own release builds set; clients parse them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One tools module. `binaries` maps a program to its package, `manifests` a name to a glob inside `source`."""

    name: str
    version: str
    source: str
    binaries: Mapping[str, str]
    stamps: Mapping[str, str] = field(default_factory=dict)
    manifests: Mapping[str, str] = field(default_factory=dict)

    @property
    def ldflags(self) -> str:
        """Symbols are left out: a link then takes less memory and the binaries half the space."""
        return " ".join(["-s", "-w", *(f"-X {variable}={value}" for variable, value in self.stamps.items())])


ETCD = Module(
    name="etcd",
    version="v3.6.16",
    source="go.etcd.io/etcd/server/v3",
    binaries={"etcd": "go.etcd.io/etcd/server/v3"},
)

KUBERNETES = Module(
    name="kubernetes",
    version="v1.36.3",
    source="k8s.io/kubernetes",
    binaries={
        program: f"k8s.io/kubernetes/cmd/{program}"
        for program in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
    },
    stamps={
        "k8s.io/component-base/version.gitVersion": "v1.36.3",
        "k8s.io/component-base/version.gitMajor": "1",
        "k8s.io/component-base/version.gitMinor": "36",
        "k8s.io/component-base/version.gitTreeState": "clean",
    },
)

KUEUE = Module(
    name="kueue",
    version="v0.19.2",
    source="sigs.k8s.io/kueue",
    binaries={"kueue": "sigs.k8s.io/kueue/cmd/kueue"},
    stamps={"sigs.k8s.io/kueue/pkg/version.GitVersion": "v0.19.2"},
    manifests={
        "crds": "config/components/crd/bases/*.yaml",
        "webhooks": "config/components/webhook/manifests.yaml",
    },
)

NFD = Module(
    name="nfd",
    version="v0.19.0",
    source="sigs.k8s.io/node-feature-discovery",
    binaries={"nfd-master": "sigs.k8s.io/node-feature-discovery/cmd/nfd-master"},
    stamps={"sigs.k8s.io/node-feature-discovery/pkg/version.version": "v0.19.0"},
    manifests={"crds": "deployment/base/nfd-crds/nfd-api-crds.yaml"},
)

MODULES = (ETCD, KUBERNETES, KUEUE, NFD)
"""In build order: what comes later finds much of its dependencies compiled already."""
