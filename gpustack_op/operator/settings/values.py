"""The settings as code reads them: one frozen value with a typed attribute for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from gpustack_op.operator.settings.catalog import CATALOG
from gpustack_op.operator.settings.value_types import SettingError, Value


def _default(name: str) -> Any:
    declared = CATALOG[name]
    return declared.parse(declared.default)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every attribute is the setting of the same name in the catalog. Durations are seconds."""

    node_management_manual: bool = _default("node-management-manual")
    node_labels_grace_period: float = _default("node-labels-grace-period")
    accelerator_recovery_period: float = _default("accelerator-recovery-period")
    accelerators_outside_queues: str = _default("accelerators-outside-queues")
    instance_type_derived_from_node: bool = _default("instance-type-derived-from-node")
    instance_type_mixed_on_node: bool = _default("instance-type-mixed-on-node")
    instance_type_aware_cpu_manufacturer: bool = _default("instance-type-aware-cpu-manufacturer")
    instance_type_drain_when_no_flavors: bool = _default("instance-type-drain-when-no-flavors")
    workload_fit_affinity: bool = _default("workload-fit-affinity")
    instance_general_resources_overcommit: bool = _default("instance-general-resources-overcommit")
    instance_privileged_allowed: bool = _default("instance-privileged-allowed")
    instance_host_path_volume_allowed: bool = _default("instance-host-path-volume-allowed")
    instance_persistent_volume_placement: bool = _default("instance-persistent-volume-placement")
    instance_ssh_server_image: str = _default("instance-ssh-server-image")
    instance_access_static_address: str = _default("instance-access-static-address")
    instance_access_wildcard_dns: str = _default("instance-access-wildcard-dns")
    container_registry: str = _default("container-registry")
    container_namespace: str = _default("container-namespace")

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> Settings:
        """From texts by setting name. One that is missing or cannot be read is its built-in default."""
        given: dict[str, Any] = {CATALOG[name].attribute: _read(name, texts[name]) for name in texts if name in CATALOG}
        return cls(**{attribute: value for attribute, value in given.items() if value is not None})

    def changed(self, before: Settings) -> frozenset[str]:
        """Names of the settings that differ."""
        names = {declared.attribute: name for name, declared in CATALOG.items()}
        return frozenset(
            names[field.name] for field in fields(self) if getattr(self, field.name) != getattr(before, field.name)
        )


def _read(name: str, text: str) -> Value | None:
    try:
        return CATALOG[name].parse(text)
    except SettingError:
        return None
