"""Every webhook of the operator: what it looks at, and who answers."""

from __future__ import annotations

from gpustack_op.api.worker import INSTANCE_TYPE_FLAVORS, INSTANCE_TYPES, SETTINGS
from gpustack_op.operator.informers import Informers
from gpustack_op.operator.webhooks.identity import OwnIdentity
from gpustack_op.operator.webhooks.instance_type import InstanceTypeWebhook
from gpustack_op.operator.webhooks.instance_type_flavor import InstanceTypeFlavorWebhook
from gpustack_op.operator.webhooks.setting import SettingWebhook
from gpustack_op.runtime.cache import Caches
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.manager import Manager
from gpustack_op.runtime.webhook.keeper import CertificateKeeper, Plan, always
from gpustack_op.runtime.webhook.registration import Address, Hook, Registration, mutating, validating
from gpustack_op.runtime.webhook.server import Bind, WebhookServer, server_tls

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

REGISTRATIONS: tuple[Registration, ...] = (
    mutating(MUTATION, [DEFAULT_INSTANCE_TYPE]),
    validating(VALIDATION, [VALIDATE_INSTANCE_TYPE, VALIDATE_INSTANCE_TYPE_FLAVOR, VALIDATE_SETTING]),
)


def add_webhooks(
    manager: Manager,
    client: Client,
    caches: Caches,
    informers: Informers,
    address: Address,
    bind: Bind,
    *,
    namespace: str,
) -> None:
    """Makes the manager serve all of them, under a certificate for that address."""
    tls = server_tls()
    server = WebhookServer(bind, tls, manager.metrics)
    install(server, informers, OwnIdentity(client, namespace), namespace=namespace)
    plan = Plan(namespace, STORED_PAIR, address, REGISTRATIONS, field_manager="gpustack-webhooks")
    elector = manager.elector
    keeper = CertificateKeeper(client, tls, plan, leading=(lambda: elector.leading) if elector else always)
    for resource, selector in plan.watched():
        caches.informer(resource, selector).add_handler(lambda change: keeper.wake())
    manager.add_webhooks(server, keeper)


def install(server: WebhookServer, informers: Informers, identity: OwnIdentity, *, namespace: str) -> None:
    """Makes the server answer all of them."""
    types = InstanceTypeWebhook(informers)
    server.add_defaulter(DEFAULT_INSTANCE_TYPE.path, types.default)
    server.add_validator(VALIDATE_INSTANCE_TYPE.path, types.validate)
    server.add_validator(VALIDATE_INSTANCE_TYPE_FLAVOR.path, InstanceTypeFlavorWebhook(identity).validate)
    server.add_validator(VALIDATE_SETTING.path, SettingWebhook(namespace).validate)
