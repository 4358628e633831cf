"""Projections of Kueue's kinds: the fields we write and the status we decide on."""

from __future__ import annotations

import msgspec

from gpustack_op.api.core import PodSpec
from gpustack_op.api.meta import KubeObject, Resource

GROUP, VERSION = "kueue.x-k8s.io", "v1beta2"


class Condition(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    observed_generation: int = 0


class TopologyLevel(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    node_label: str = ""


class TopologySpec(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    levels: tuple[TopologyLevel, ...] = ()


class Topology(KubeObject, frozen=True, gc=False, kw_only=True):
    spec: TopologySpec = TopologySpec()


class Toleration(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class ResourceFlavorSpec(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    node_labels: dict[str, str] | None = None
    tolerations: tuple[Toleration, ...] | None = None
    topology_name: str = ""


class ResourceFlavor(KubeObject, frozen=True, gc=False, kw_only=True):
    spec: ResourceFlavorSpec = ResourceFlavorSpec()


class ResourceQuota(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    name: str = ""
    nominal_quota: str = "0"


class FlavorQuotas(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    name: str = ""
    resources: tuple[ResourceQuota, ...] = ()


class ResourceGroup(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    covered_resources: tuple[str, ...] = ()
    flavors: tuple[FlavorQuotas, ...] = ()


class AdmissionCheckRule(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    name: str = ""
    on_flavors: tuple[str, ...] | None = None


class AdmissionChecksStrategy(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    admission_checks: tuple[AdmissionCheckRule, ...] | None = None


class FlavorFungibility(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    when_can_borrow: str = ""
    when_can_preempt: str = ""


class BorrowWithinCohort(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    policy: str = ""


class Preemption(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    reclaim_within_cohort: str = ""
    borrow_within_cohort: BorrowWithinCohort = BorrowWithinCohort()
    within_cluster_queue: str = ""


class ClusterQueueSpec(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    namespace_selector: dict[str, object] | None = None
    resource_groups: tuple[ResourceGroup, ...] | None = None
    admission_checks_strategy: AdmissionChecksStrategy | None = None
    stop_policy: str = ""
    flavor_fungibility: FlavorFungibility | None = None
    preemption: Preemption | None = None


class ReservedResource(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    name: str = ""
    total: str = "0"


class FlavorReservation(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    name: str = ""
    resources: tuple[ReservedResource, ...] | None = None


class ClusterQueueStatus(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    conditions: tuple[Condition, ...] | None = None
    flavors_reservation: tuple[FlavorReservation, ...] | None = None
    reserving_workloads: int = 0
    admitted_workloads: int = 0


class ClusterQueue(KubeObject, frozen=True, gc=False, kw_only=True):
    spec: ClusterQueueSpec = ClusterQueueSpec()
    status: ClusterQueueStatus = ClusterQueueStatus()


class LocalQueueSpec(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    cluster_queue: str = ""
    stop_policy: str = ""


class LocalQueue(KubeObject, frozen=True, gc=False, kw_only=True):
    spec: LocalQueueSpec = LocalQueueSpec()


class AdmissionCheckSpec(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    controller_name: str = ""


class AdmissionCheckStatus(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    conditions: tuple[Condition, ...] | None = None


class AdmissionCheck(KubeObject, frozen=True, gc=False, kw_only=True):
    spec: AdmissionCheckSpec = AdmissionCheckSpec()
    status: AdmissionCheckStatus = AdmissionCheckStatus()


class LevelValues(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """Values of one topology level: all the same (`universal`), or a prefix and suffix around each of the roots."""

    universal: str | None = None
    individual: IndividualValues | None = None


class IndividualValues(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    prefix: str = ""
    suffix: str = ""
    roots: tuple[str, ...] = ()


class PodCounts(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """Pods a domain: the same number in each (`universal`), or one number for each."""

    universal: int | None = None
    individual: tuple[int, ...] | None = None


class TopologySlice(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    domain_count: int = 0
    pod_counts: PodCounts = PodCounts()
    values_per_level: tuple[LevelValues, ...] = ()


class TopologyAssignment(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    levels: tuple[str, ...] = ()
    slices: tuple[TopologySlice, ...] = ()


class PodSetAssignment(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    name: str = ""
    flavors: dict[str, str] | None = None
    count: int = 0
    topology_assignment: TopologyAssignment | None = None


class Admission(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    cluster_queue: str = ""
    pod_set_assignments: tuple[PodSetAssignment, ...] | None = None


class AdmissionCheckState(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    name: str = ""
    state: str = ""
    message: str = ""
    last_transition_time: str = ""
    retry_count: int = 0


class WorkloadStatus(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    conditions: tuple[Condition, ...] | None = None
    admission: Admission | None = None
    admission_checks: tuple[AdmissionCheckState, ...] | None = None


class PodTemplate(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    spec: PodSpec = PodSpec()


class PodSet(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    name: str = ""
    count: int = 0
    template: PodTemplate = PodTemplate()


class WorkloadSpec(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    active: bool = True
    queue_name: str = ""
    pod_sets: tuple[PodSet, ...] | None = None


class Workload(KubeObject, frozen=True, gc=False, kw_only=True):
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


TOPOLOGIES = Resource(GROUP, VERSION, "topologies", "Topology", Topology)
RESOURCE_FLAVORS = Resource(
    GROUP, VERSION, "resourceflavors", "ResourceFlavor", ResourceFlavor, annotations=("note.gpustack.ai/",)
)
CLUSTER_QUEUES = Resource(GROUP, VERSION, "clusterqueues", "ClusterQueue", ClusterQueue)
LOCAL_QUEUES = Resource(
    GROUP, VERSION, "localqueues", "LocalQueue", LocalQueue, namespaced=True, annotations=("schedule.gpustack.ai/",)
)
ADMISSION_CHECKS = Resource(GROUP, VERSION, "admissionchecks", "AdmissionCheck", AdmissionCheck)
WORKLOADS = Resource(GROUP, VERSION, "workloads", "Workload", Workload, namespaced=True, annotations=("gpustack.ai/",))
