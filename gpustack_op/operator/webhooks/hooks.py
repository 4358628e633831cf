"""Every webhook of the operator: what it looks at, and who answers."""

from __future__ import annotations

from dataclasses import replace

from gpustack_op.api.core import PODS
from gpustack_op.api.kueue import WORKLOADS
from gpustack_op.api.worker import INSTANCE_TYPE_FLAVORS, INSTANCE_TYPES, SETTINGS
from gpustack_op.operator.informers import Informers
from gpustack_op.operator.namespaces import CLOSED_PREFIX
from gpustack_op.operator.webhooks.fronting import Fronting
from gpustack_op.operator.webhooks.identity import OwnIdentity
from gpustack_op.operator.webhooks.instance_type import InstanceTypeWebhook
from gpustack_op.operator.webhooks.instance_type_flavor import InstanceTypeFlavorWebhook
from gpustack_op.operator.webhooks.job import JOBS, JobWebhook
from gpustack_op.operator.webhooks.pod import PodWebhook
from gpustack_op.operator.webhooks.setting import SettingWebhook
from gpustack_op.operator.webhooks.workload import WorkloadWebhook
from gpustack_op.operator.workload_fit import FitPin
from gpustack_op.runtime.cache import Caches
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.manager import Manager
from gpustack_op.runtime.webhook.keeper import CertificateKeeper, Plan, always
from gpustack_op.runtime.webhook.registration import Address, Hook, Registration, mutating, validating
from gpustack_op.runtime.webhook.server import Bind, WebhookServer, server_tls
from gpustack_op.scheduling.kueue_config import KUEUE_NAMESPACE, NFD_NAMESPACE
from gpustack_op.scheduling.labels import KUEUE_QUEUE_NAME

MUTATION = "gpustack-worker-mutation"
"""The API server asks configurations in the order of their names: ours comes before Kueue's."""

VALIDATION = "gpustack-worker-validation"
STORED_PAIR = "gpustack-operator-webhook"
"""The Secret with the serving certificate that all replicas share."""

_STAYS = ("stays", "!has(object.metadata.deletionTimestamp)")
"""What is being deleted must be able to go while no operator answers."""

DEFAULT_INSTANCE_TYPE = Hook(
    "mutate.worker.gpustack.ai.v1.instancetype", "/mutate-worker-gpustack-ai-v1-instancetype", INSTANCE_TYPES,
    when=(_STAYS,),
)  # fmt: skip
VALIDATE_INSTANCE_TYPE = Hook(
    "validate.worker.gpustack.ai.v1.instancetype", "/validate-worker-gpustack-ai-v1-instancetype", INSTANCE_TYPES,
    when=(_STAYS,),
)  # fmt: skip
VALIDATE_INSTANCE_TYPE_FLAVOR = Hook(
    "validate.worker.gpustack.ai.v1.instancetypeflavor", "/validate-worker-gpustack-ai-v1-instancetypeflavor",
    INSTANCE_TYPE_FLAVORS, operations=("CREATE", "UPDATE", "DELETE"),
)  # fmt: skip
VALIDATE_SETTING = Hook(
    "validate.gpustack.ai.v1.setting", "/validate-gpustack-ai-v1-setting", SETTINGS, when=(_STAYS,)
)  # fmt: skip
DEFAULT_POD = Hook(
    "mutate.gpustack-worker.core.v1.pod", "/mutate-gpustack-worker-core-v1-pod", PODS,
    operations=("CREATE",), labelled=(KUEUE_QUEUE_NAME,),
)  # fmt: skip
VALIDATE_POD = Hook(
    "validate.gpustack-worker.core.v1.pod", "/validate-gpustack-worker-core-v1-pod", PODS,
    operations=("CREATE",), labelled=(KUEUE_QUEUE_NAME,),
)  # fmt: skip
DEFAULT_JOB = Hook(
    "mutate.gpustack-worker.batch.v1.job", "/mutate-gpustack-worker-batch-v1-job", JOBS, labelled=(KUEUE_QUEUE_NAME,),
)  # fmt: skip
VALIDATE_JOB = Hook(
    "validate.gpustack-worker.batch.v1.job", "/validate-gpustack-worker-batch-v1-job", JOBS,
    labelled=(KUEUE_QUEUE_NAME,),
)  # fmt: skip
DEFAULT_WORKLOAD = Hook(
    "mutate.gpustack-worker.kueue.v1beta2.workload", "/mutate-gpustack-worker-kueue-v1beta2-workload", WORKLOADS,
    when=(("entrance", "has(object.spec.queueName) && object.spec.queueName.startsWith('gpustack-fnv64-')"),),
    failure_policy="Ignore",
)  # fmt: skip
"""A Workload that is not pinned is still judged, and is pinned later."""


_CONTAINERS_ARE_NEW = (
    "containers-are-new",
    "request.operation == 'CREATE'"
    " || object.spec.template.spec.containers != oldObject.spec.template.spec.containers"
    " || object.spec.template.spec.?initContainers != oldObject.spec.template.spec.?initContainers",
)
"""Kueue changes other parts of a Job's template when it starts one, which nothing of ours should be able to prevent."""


def registrations(namespace: str) -> tuple[Registration, ...]:
    """All of them. `namespace` is the operator's own: no Pod or Job is looked at there, nor in other closed ones."""
    pods, jobs = _queued(namespace), _queued(namespace, _CONTAINERS_ARE_NEW)
    return (
        mutating(
            MUTATION,
            [
                *(DEFAULT_INSTANCE_TYPE, replace(DEFAULT_POD, when=pods), replace(DEFAULT_JOB, when=jobs)),
                DEFAULT_WORKLOAD,
            ],
        ),
        validating(
            VALIDATION,
            [
                *(VALIDATE_INSTANCE_TYPE, VALIDATE_INSTANCE_TYPE_FLAVOR, VALIDATE_SETTING),
                *(replace(VALIDATE_POD, when=pods), replace(VALIDATE_JOB, when=jobs)),
            ],
        ),
    )


def _queued(namespace: str, *more: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    named = ", ".join(f"'{name}'" for name in (namespace, KUEUE_NAMESPACE, NFD_NAMESPACE))
    is_open = f"!request.namespace.startsWith('{CLOSED_PREFIX}') && !(request.namespace in [{named}])"
    return (("open-namespace", is_open), *more)


def add_webhooks(
    manager: Manager,
    client: Client,
    caches: Caches,
    informers: Informers,
    address: Address,
    bind: Bind,
    *,
    namespace: str,
    fit: FitPin,
) -> None:
    """Makes the manager serve all of them, under a certificate for that address."""
    tls = server_tls()
    server = WebhookServer(bind, tls, manager.metrics)
    fronting = Fronting(informers, client)
    install(server, informers, OwnIdentity(client, namespace), fronting, fit, namespace=namespace)
    plan = Plan(namespace, STORED_PAIR, address, registrations(namespace), field_manager="gpustack-webhooks")
    elector = manager.elector
    keeper = CertificateKeeper(client, tls, plan, leading=(lambda: elector.leading) if elector else always)
    for resource, selector in plan.watched():
        caches.informer(resource, selector).add_handler(lambda change: keeper.wake())
    manager.add_webhooks(server, keeper)


def install(
    server: WebhookServer,
    informers: Informers,
    identity: OwnIdentity,
    fronting: Fronting,
    fit: FitPin,
    *,
    namespace: str,
) -> None:
    """Makes the server answer all of them."""
    types = InstanceTypeWebhook(informers)
    server.add_defaulter(DEFAULT_INSTANCE_TYPE.path, types.default)
    server.add_validator(VALIDATE_INSTANCE_TYPE.path, types.validate)
    server.add_validator(VALIDATE_INSTANCE_TYPE_FLAVOR.path, InstanceTypeFlavorWebhook(identity).validate)
    server.add_validator(VALIDATE_SETTING.path, SettingWebhook(namespace).validate)
    pods, jobs = PodWebhook(fronting), JobWebhook(fronting)
    server.add_defaulter(DEFAULT_POD.path, pods.default)
    server.add_validator(VALIDATE_POD.path, pods.validate)
    server.add_defaulter(DEFAULT_JOB.path, jobs.default)
    server.add_validator(VALIDATE_JOB.path, jobs.validate)
    server.add_defaulter(DEFAULT_WORKLOAD.path, WorkloadWebhook(fit).default)
