"""Pods that come through a pool's entrance, and the Workloads that Kueue makes of them.

No kubelet runs: a Pod that is bound to a node stays as it is, and nobody reports that it runs.
"""

from __future__ import annotations

import json
from typing import Any

from devcluster.kubectl import Kubectl
from gpustack_op.scheduling import names
from tests.e2e.looking import PODS, WORKLOADS, Looking

Object = dict[str, Any]


def pod(name: str, *, pool: str, requests: dict[str, str], node: str = "") -> str:
    """A manifest. `node` pins it."""
    container = {"name": "main", "image": "ubuntu", "resources": {"requests": requests, "limits": requests}}
    spec: Object = {"containers": [container], "terminationGracePeriodSeconds": 0}
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    metadata = {
        "name": name,
        "namespace": "default",
        "labels": {"kueue.x-k8s.io/queue-name": names.entrance(pool)},
    }
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


class QueuedPod:
    def __init__(self, name: str, kubectl: Kubectl, looking: Looking) -> None:
        self.name = name
        self._kubectl = kubectl
        self._looking = looking

    async def create(self, *, pool: str, requests: dict[str, str], node: str = "") -> None:
        await self._kubectl("create", "-f", "-", stdin=pod(self.name, pool=pool, requests=requests, node=node))

    async def delete(self) -> None:
        """At once, since no kubelet will say that it has ended."""
        options = ("--ignore-not-found", "--force", "--grace-period=0", "--timeout=20s")
        await self._kubectl("-n", "default", "delete", "pod", self.name, *options)

    async def bound_to(self) -> str:
        return str((await self._pod()).get("spec", {}).get("nodeName", ""))

    async def gates(self) -> list[str]:
        return [gate["name"] for gate in (await self._pod()).get("spec", {}).get("schedulingGates", [])]

    async def workload(self) -> Object:
        """Empty as long as there is none."""
        uid = (await self._pod()).get("metadata", {}).get("uid")
        for workload in await self._looking.all(WORKLOADS, "default"):
            if any(owner["uid"] == uid for owner in workload["metadata"].get("ownerReferences", [])):
                return workload
        return {}

    async def conditions(self) -> dict[str, str]:
        """Of its Workload: type to status."""
        status = (await self.workload()).get("status", {})
        return {condition["type"]: condition["status"] for condition in status.get("conditions", [])}

    async def _pod(self) -> Object:
        return await self._looking.find(PODS, self.name, "default")
