"""Every setting there is: the one list that the Secret, the Setting objects and the typed values are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from gpustack_op.operator.settings.value_types import Bool, Choice, Duration, SettingError, Text, Value, ValueType

ENVIRONMENT_LEAD: Final = "GPUSTACK_"


@dataclass(frozen=True, slots=True)
class Declaration:
    """One setting. `default` is written as a person would write it."""

    name: str
    type: ValueType
    default: str
    description: str

    @property
    def attribute(self) -> str:
        """Its name in `Settings`."""
        return self.name.replace("-", "_")

    @property
    def environment(self) -> str:
        """The variable whose value is stored when nothing is stored yet."""
        return ENVIRONMENT_LEAD + self.attribute.upper()

    def parse(self, text: str) -> Value:
        """The value, or a SettingError that quotes the text and says how to write it."""
        return self.type.parse(text)

    def refusal(self, text: str) -> str | None:
        """Why the text is no value of this setting, or None when it is one."""
        try:
            self.parse(text)
        except SettingError as error:
            return str(error)
        return None


_DECLARATIONS: Final = (
    Declaration(
        "node-management-manual",
        Bool(),
        "false",
        "Whether nodes join pools only once a person labels them gpustack.ai/managed=true; otherwise every node joins "
        "by itself.",
    ),
    Declaration(
        "node-labels-grace-period",
        Duration(),
        "60s",
        "How long a node may be without the labels that place it in pools before it is taken out of them. A restart of "
        "Node Feature Discovery is shorter than this.",
    ),
    Declaration(
        "accelerator-recovery-period",
        Duration(),
        "60s",
        "How long an accelerator that was unhealthy must be healthy without a break before it is offered again.",
    ),
    Declaration(
        "accelerators-outside-queues",
        Choice(("allow", "refuse")),
        "allow",
        "Whether Pods that did not come through one of the queues may be given accelerators.",
    ),
    Declaration(
        "instance-type-derived-from-node",
        Bool(),
        "true",
        "Whether an InstanceType is created for every kind of hardware that appears. Those created stay when this is "
        "turned off.",
    ),
    Declaration(
        "instance-type-mixed-on-node",
        Bool(),
        "true",
        "Whether a node with accelerators also lends its CPUs to the pools without accelerators.",
    ),
    Declaration(
        "instance-type-aware-cpu-manufacturer",
        Bool(),
        "false",
        "Whether derived InstanceTypes and the catalog tell nodes apart by their CPU. Existing InstanceTypes keep "
        "their pools.",
    ),
    Declaration(
        "instance-type-drain-when-no-flavors",
        Bool(),
        "false",
        "Whether a pool that lost its last node stops what still runs in it; otherwise it only admits nothing new.",
    ),
    Declaration(
        "workload-fit-affinity",
        Bool(),
        "true",
        "Whether queued Workloads are pinned to the nodes whose accelerators can take them.",
    ),
    Declaration(
        "instance-general-resources-overcommit",
        Bool(),
        "true",
        "Whether Instances request less CPU and memory than they may use, so that more of them fit.",
    ),
    Declaration(
        "instance-privileged-allowed",
        Bool(),
        "false",
        "Whether Instances may run privileged, which opens the node's devices and kernel to them.",
    ),
    Declaration(
        "instance-host-path-volume-allowed",
        Bool(),
        "false",
        "Whether Instances may mount directories of the node, which opens the node's files to them.",
    ),
    Declaration(
        "instance-persistent-volume-placement",
        Bool(),
        "true",
        "Whether an Instance is placed where the volumes it claims can be attached.",
    ),
    Declaration(
        "instance-ssh-server-image",
        Text(blank=False),
        "gpustack/ssh-server:v1.3.0",
        "Image of the SSH server that stands beside an Instance.",
    ),
    Declaration(
        "instance-access-static-address",
        Text(),
        "",
        "Address under which all Instances are reached, such as that of a load balancer. Blank: the nodes' own.",
    ),
    Declaration(
        "instance-access-wildcard-dns",
        Text(),
        "",
        "Domain whose names lead to the addresses they contain, used to address Instances. Ignored when a static "
        "address is set.",
    ),
    Declaration(
        "container-registry",
        Text(),
        "",
        "Registry that the SSH server's image is pulled from. Blank: the one its name says.",
    ),
    Declaration(
        "container-namespace",
        Text(),
        "",
        "Namespace in the registry that the SSH server's image is pulled from. Blank: the one its name says.",
    ),
)

CATALOG: Final[Mapping[str, Declaration]] = {declared.name: declared for declared in _DECLARATIONS}
"""By name."""


def unknown(name: str) -> str:
    """What to tell a person who names a setting that does not exist."""
    near = get_close_matches(name, CATALOG, n=1)
    if near:
        return f'there is no setting "{name}"; did you mean {near[0]}?'
    return f'there is no setting "{name}"; one of: {", ".join(sorted(CATALOG))}.'


def seeds(environment: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """What is stored for each setting when nothing is stored yet, and what is wrong with the environment."""
    texts, complaints = {}, []
    for declared in CATALOG.values():
        given = environment.get(declared.environment)
        refusal = declared.refusal(given) if given is not None else None
        if refusal:
            complaints.append(f"{declared.environment}: {refusal}")
        texts[declared.name] = declared.default if given is None or refusal else given.strip()
    return texts, complaints


DEFAULTS: Final[Mapping[str, str]] = {declared.name: declared.default for declared in CATALOG.values()}
"""The seeds of an empty environment."""
