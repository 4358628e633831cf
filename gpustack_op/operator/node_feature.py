"""Keeps, for every node, the NodeFeature that says whether it is managed and what CPU it has.

Owns      NodeFeature `<node>-gpustack-worker` in the operator's namespace, but for the value of `gpustack.ai/managed`
          once it is there: that belongs to whoever edits it. The Node annotation `gpustack.ai/managed`, the memory of
          an opt-out whose NodeFeature somebody deletes.
Never     writes the managed key where there is one, nor at all in manual mode; publishes a CPU key that is only half
          known.
Woken by  Node (primary), NodeFeatures of the operator's namespace, settings.
Promises  a deleted or edited NodeFeature is put back, an opt-out stays out; a managed label edited by hand on the Node
          is put back with an Event that says where to edit; a settled cluster sees no write.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gpustack_op.api.core import NODES, Node
from gpustack_op.api.nfd import NODE_FEATURES, NodeFeature
from gpustack_op.api.quantity import Quantity, QuantityError
from gpustack_op.operator.informers import Informers
from gpustack_op.operator.ownership import controller_reference, is_anothers
from gpustack_op.operator.settings.live import LiveSettings
from gpustack_op.runtime.apply import Owned, Writer
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.controller import DONE, Request, Result
from gpustack_op.runtime.errors import AlreadyExists
from gpustack_op.runtime.events import Recorder
from gpustack_op.scheduling import labels, names
from gpustack_op.scheduling.cpu_key import CpuIdentity, general_key

HAND_EDIT_PATIENCE = 3.0
"""Seconds a Node's managed label may differ from its NodeFeature before it is put back; NFD itself needs one."""

OWNED = Owned(
    exact=(
        f"spec.labels[{labels.GENERAL_PREFIX}*]",
        f"spec.labels[{labels.FEATURE_PREFIX}*]",
        f"spec.labels[{labels.ACCELERATOR_PREFIX}*]",
    )
)


@dataclass(frozen=True, slots=True)
class FeatureInputs:
    """What is known of one node. `cpu` are the facts its agent reports, None before it has; so is `cpu_only`."""

    node: Node
    present: NodeFeature | None
    cpu: Mapping[str, str] | None
    cpu_only: bool | None
    manual: bool
    waited: bool


def wanted_labels(facts: FeatureInputs) -> dict[str, str]:
    """Everything the NodeFeature should say but the managed mark."""
    before = published(facts.present)
    key = known_key(facts)
    cpu_only = before.get(labels.CPU_ONLY) == labels.TRUE if facts.cpu_only is None else facts.cpu_only
    return labels.capacity_labels(key, cores(facts.node), cpu_only=cpu_only) if key else {}


def known_key(facts: FeatureInputs) -> str | None:
    """The CPU's key when NFD and the agent have both spoken; before that the one published last.

    Without either, what there is makes the key once the grace period is over.
    """
    cpu = cpu_facts(facts.node, facts.cpu)
    if not cpu.complete:
        before = published_key(published(facts.present))
        if before is not None or not facts.waited:
            return before
    return general_key(cpu)


def cpu_facts(node: Node, reported: Mapping[str, str] | None) -> CpuIdentity:
    return CpuIdentity.of(node.labels, reported or {})


def published_key(published: Mapping[str, str]) -> str | None:
    """The general key among a node's published labels; a manufacturer alone is none."""
    return max(labels.general_keys(published), key=len, default=None)


def cores(node: Node) -> int:
    """Whole cores of the node's capacity, rounded up; 0 when it does not tell."""
    try:
        return Quantity.parse((node.status.capacity or {}).get("cpu", "0")).ceil()
    except QuantityError:
        return 0


def first_mark(node: Node, *, manual: bool) -> str:
    """The managed value for a NodeFeature that has none: an opt-out of before, by annotation or label, stays.

    In manual mode there is none: then the Node's own label is what counts, and a person writes it.
    """
    if manual:
        return ""
    return labels.managed_mark(
        node.annotations.get(labels.MANAGED) or node.labels.get(labels.MANAGED, ""), manual=False
    )


def published(feature: NodeFeature | None) -> Mapping[str, str]:
    return (feature.spec.labels or {}) if feature else {}


def wanted_feature(facts: FeatureInputs, namespace: str) -> dict[str, Any]:
    node = facts.node
    return {
        "metadata": {
            "name": names.worker_feature(node.name),
            "namespace": namespace,
            "labels": {labels.NFD_NODE_NAME: node.name, labels.PART_OF: names.WORKER_PART_OF},
            "ownerReferences": [controller_reference(node, NODES)],
        },
        "spec": {"labels": wanted_labels(facts)},
    }


class NodeFeatureReconciler:
    name = "node-feature"

    def __init__(
        self,
        informers: Informers,
        writer: Writer,
        client: Client,
        recorder: Recorder,
        settings: LiveSettings,
        *,
        namespace: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.informers = informers
        self.writer = writer
        self.client = client
        self.recorder = recorder
        self.settings = settings
        self.namespace = namespace
        self.clock = clock
        self._unknown_since: dict[str, float] = {}
        self._edited_since: dict[str, float] = {}

    async def reconcile(self, request: Request) -> Result:
        node = self.informers.nodes.get(request.name)
        if node is None:
            self._unknown_since.pop(request.name, None)
            self._edited_since.pop(request.name, None)
            return DONE  # its NodeFeature is garbage-collected with it
        if node.deleting:
            return DONE
        present = self.informers.node_features.get(names.worker_feature(node.name), self.namespace)
        if present is not None and (present.deleting or is_anothers(present, node.uid)):
            return DONE  # a former Node's is about to be collected; its end wakes us
        facts, wait = self._gather(node, present)
        await self._keep(facts)
        patience = await self._put_back(node, present)
        return Result(requeue_after=min((w for w in (wait, patience) if w), default=None))

    def _gather(self, node: Node, present: NodeFeature | None) -> tuple[FeatureInputs, float | None]:
        agent = self.informers.node_features.get(names.agent_feature(node.name), self.namespace)
        cpu, cpu_only = reported(agent)
        wait = self._grace_left(node, cpu)
        facts = FeatureInputs(
            node=node,
            present=present,
            cpu=cpu,
            cpu_only=cpu_only,
            manual=self.settings.current.node_management_manual,
            waited=wait is not None and wait <= 0,
        )
        return facts, wait if wait and wait > 0 else None

    def _grace_left(self, node: Node, cpu: Mapping[str, str] | None) -> float | None:
        """Seconds until a CPU key is made of what there is; None once everything is known."""
        if cpu_facts(node, cpu).complete:
            self._unknown_since.pop(node.name, None)
            return None
        since = self._unknown_since.setdefault(node.name, self.clock())
        return since + self.settings.current.node_labels_grace_period - self.clock()

    async def _keep(self, facts: FeatureInputs) -> None:
        body = wanted_feature(facts, self.namespace)
        mark = first_mark(facts.node, manual=facts.manual)
        if facts.present is None:
            await self._create(body, mark)
            return
        written = await self.writer.converge(NODE_FEATURES, body, facts.present, owned=OWNED)
        if mark and not published(facts.present).get(labels.MANAGED):
            await self._mark(written or facts.present, mark)

    async def _create(self, body: dict[str, Any], mark: str) -> None:
        """A create, not an apply: were the NodeFeature there already, its mark would be somebody's choice."""
        if mark:
            body["spec"]["labels"] = {labels.MANAGED: mark, **body["spec"]["labels"]}
        with suppress(AlreadyExists):
            await self.client.create(
                NODE_FEATURES, body, namespace=self.namespace, field_manager=self.writer.field_manager
            )

    async def _mark(self, present: NodeFeature, mark: str) -> None:
        """For a NodeFeature from manual mode. Bound to the version seen: a mark that somebody sets meanwhile stays."""
        version = {"resourceVersion": present.metadata.resource_version}
        await self.client.merge_patch(
            NODE_FEATURES,
            present.name,
            {"metadata": version, "spec": {"labels": {labels.MANAGED: mark}}},
            namespace=self.namespace,
            field_manager=self.writer.field_manager,
        )

    async def _put_back(self, node: Node, present: NodeFeature | None) -> float | None:
        """Keeps the Node's annotation and label in line with the NodeFeature; the seconds to wait before it must."""
        value = published(present).get(labels.MANAGED, "")
        if not value:
            return None
        await self._remember(node, value)
        label = node.labels.get(labels.MANAGED, "")
        if label in {"", value}:
            self._edited_since.pop(node.name, None)
            return None
        left = self._edited_since.setdefault(node.name, self.clock()) + HAND_EDIT_PATIENCE - self.clock()
        if left > 0:
            return left
        await self._set_label(node, label, value)
        return None

    async def _remember(self, node: Node, value: str) -> None:
        opted_out = labels.FALSE if value == labels.FALSE else None
        if node.annotations.get(labels.MANAGED) != opted_out:
            patch = {"metadata": {"annotations": {labels.MANAGED: opted_out}}}
            await self.client.merge_patch(NODES, node.name, patch, field_manager=self.writer.field_manager)

    async def _set_label(self, node: Node, edited: str, value: str) -> None:
        patch = {"metadata": {"labels": {labels.MANAGED: value}}}
        await self.client.merge_patch(NODES, node.name, patch, field_manager=self.writer.field_manager)
        self._edited_since.pop(node.name, None)
        feature = f"{self.namespace}/{names.worker_feature(node.name)}"
        self.recorder.event(
            node,
            "Warning",
            "ManagedLabelPutBack",
            f'Node "{node.name}": label {labels.MANAGED}={edited} was set back to "{value}"; '
            f"edit spec.labels of NodeFeature {feature} instead",
            action="PutBackLabel",
        )


def reported(agent: NodeFeature | None) -> tuple[Mapping[str, str] | None, bool | None]:
    """What a node's agent says of its CPU, and whether it says that there is no card; None where it has not spoken."""
    if agent is None:
        return None, None
    feature = (agent.spec.features.attributes or {}).get(labels.CPU_FEATURE)
    cpu_only = (agent.spec.labels or {}).get(labels.ACCELERATABLE) != labels.TRUE
    return (feature.elements or {}) if feature else None, cpu_only


def node_of(feature: NodeFeature) -> list[Request]:
    """The node a NodeFeature is about, by NFD's own label."""
    name = feature.labels.get(labels.NFD_NODE_NAME, "")
    return [Request(name)] if name else []
