"""The device plugin of a real node: its cards as the monitor sees them, its Pods as the API server tells them."""

from __future__ import annotations

from collections.abc import Callable

from gpustack_op.agent.informers import AgentInformers
from gpustack_op.agent.injection.cdi import takes_cdi
from gpustack_op.agent.injection.registry import Surroundings as Place
from gpustack_op.agent.injection.registry import injectors
from gpustack_op.agent.plugin.ground import Cluster, Machine
from gpustack_op.agent.plugin.pod_book import PodBook, pods_of_node
from gpustack_op.agent.plugin.record_writer import RecordWriter
from gpustack_op.agent.plugin.wiring import DevicePlugin, Surroundings, device_plugin
from gpustack_op.agent.preflight import Folders
from gpustack_op.api.core import PODS, Pod
from gpustack_op.runtime.events import Recorder

FIELD_MANAGER = "gpustack-agent"


def node_device_plugin(folders: Folders, machine: Machine, cluster: Cluster, wake: Callable[[], None]) -> DevicePlugin:
    informer = cluster.informers.watch_pods(cluster.caches)
    made = device_plugin(
        Surroundings(
            folders=folders,
            detector=machine.detector,
            sight=machine.sight,
            groups=machine.groups,
            pods=PodBook(informer, pods_of_node(cluster.client, cluster.informers.node_name)),
            writer=RecordWriter(cluster.client, FIELD_MANAGER),
            injectors=injectors(Place(folders.state, _cdi(cluster.informers))),
            wake=wake,
            tell=_teller(cluster.recorder),
            metrics=cluster.metrics,
        )
    )

    def stirred(_change: object) -> None:
        made.stirred()
        wake()

    informer.add_handler(stirred)
    return made


def _cdi(informers: AgentInformers) -> Callable[[], bool]:
    def asked() -> bool:
        node = informers.node()
        return node is not None and takes_cdi(node.status.node_info.container_runtime_version)

    return asked


def _teller(recorder: Recorder) -> Callable[[Pod, str], None]:
    def tell(pod: Pod, sentence: str) -> None:
        recorder.event(pod, "Warning", "AllocationRecordCorrected", sentence, action="Correct", resource=PODS)

    return tell
