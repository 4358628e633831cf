"""Keys and values of every label and annotation the product writes or reads, and the selectors made from them.

Promises  A value built here is a legal label value. A selector made from labels that identify no pool is None, which
          selects nothing: it never widens to everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpustack_op.api.worker import DeviceGroup
from gpustack_op.scheduling.manufacturers import CREDITS_PREFIX, GENERIC, MANUFACTURERS, Manufacturers
from gpustack_op.scheduling.memory_text import mebibytes_text
from gpustack_op.scheduling.sanitise import label_value

TRUE, FALSE = "true", "false"

FEATURE_PREFIX = "feature.gpustack.ai/"
GENERAL_PREFIX = "general.feature.gpustack.ai/"
ACCELERATOR_PREFIX = "acceleratable.feature.gpustack.ai/"
NOTE_PREFIX = "note.gpustack.ai/"

# On Nodes, and from there on Devices and ResourceFlavors.
MANAGED = "gpustack.ai/managed"
ACCELERATABLE = "feature.gpustack.ai/acceleratable"
CPU_ONLY = "feature.gpustack.ai/cpu-only"
OS, ARCH = "kubernetes.io/os", "kubernetes.io/arch"
CPU_VENDOR = "feature.node.kubernetes.io/cpu-model.vendor_id"
CPU_FAMILY = "feature.node.kubernetes.io/cpu-model.family"
CPU_MODEL = "feature.node.kubernetes.io/cpu-model.id"

# What an object of ours is.
RESOURCE_TYPE = "resource.gpustack.ai/type"
TYPE_FLAVOR, TYPE_POOL, TYPE_TOPOLOGY, TYPE_ENTRANCE = "nodes", "instancetypes", "topology", "queue-entrance"
PART_OF = "app.kubernetes.io/part-of"
DERIVED_FROM_NODE = "schedule.gpustack.ai/derived-from-node"
QUEUE_ENTRANCE = "schedule.gpustack.ai/queue-entrance"
QUEUE_ANNOTATION = "schedule.gpustack.ai/queue"
CONTROLLED_FINALIZER = "gpustack.ai/controlled"

# On Pods.
ALLOCATED = "device.gpustack.ai/accelerator.allocated"

# Other projects' keys.
NFD_NODE_NAME = "nfd.node.kubernetes.io/node-name"
KUEUE_QUEUE_NAME = "kueue.x-k8s.io/queue-name"
KUEUE_WORKLOAD = "kueue.x-k8s.io/workload"
KUEUE_POD_SET = "kueue.x-k8s.io/podset"
HOSTNAME = "kubernetes.io/hostname"

CPU_FEATURE = "gpustack.cpu"
"""The attribute feature under which an agent reports CPU facts in its NodeFeature."""
DEVICE_FEATURE = "gpustack.device"
"""The flag feature by which an agent says that the node has an accelerator."""

Selector = Mapping[str, str]


def flag(value: bool) -> str:
    return TRUE if value else FALSE


def general(key: str, suffix: str = "") -> str:
    """`general.feature.gpustack.ai/<key>[.<suffix>]`."""
    return f"{GENERAL_PREFIX}{key}.{suffix}" if suffix else GENERAL_PREFIX + key


def accelerator(key: str, suffix: str = "") -> str:
    """`acceleratable.feature.gpustack.ai/<key>[.<suffix>]`."""
    return f"{ACCELERATOR_PREFIX}{key}.{suffix}" if suffix else ACCELERATOR_PREFIX + key


def note(name: str) -> str:
    return NOTE_PREFIX + name


def credits(manufacturer: str) -> str:
    return CREDITS_PREFIX + manufacturer


def manufacturer_of(key: str) -> str:
    """The manufacturer of a general or accelerator key: what stands before its first dash."""
    return key.split("-", 1)[0]


# --- Labels of nodes ----------------------------------------------------------------------------------------------


def managed_mark(existing: str, *, manual: bool) -> str:
    """What `gpustack.ai/managed` should say: a value that is there stays; manual mode never gives one by itself."""
    return existing or ("" if manual else TRUE)


def capacity_labels(general_key: str, cores: int, *, cpu_only: bool = False) -> dict[str, str]:
    """What the operator tells about a node's CPU. `cpu_only` marks it for pools that share no node with cards."""
    labels = {general(manufacturer_of(general_key)): TRUE, general(general_key): TRUE}
    if cores > 0:
        labels[general(general_key, "count")] = str(cores)
    if cpu_only:
        labels[CPU_ONLY] = TRUE
    return labels


def accelerator_labels(groups: Iterable[DeviceGroup]) -> dict[str, str]:
    """What the agent tells about a node's cards. A group without cards adds nothing; no group, no label."""
    labels: dict[str, str] = {}
    for group in groups:
        if group.accelerators:
            labels |= {ACCELERATABLE: TRUE} | _group_labels(group)
    return labels


def _group_labels(group: DeviceGroup) -> dict[str, str]:
    key = f"{group.manufacturer}-{group.id}"
    required = {
        accelerator(group.manufacturer): TRUE,
        accelerator(key): TRUE,
        accelerator(key, "product"): label_value(group.name) or group.id,
        accelerator(key, "cores"): str(group.cores),
        accelerator(key, "count"): str(len(group.accelerators or ())),
    }
    known = {
        accelerator(key, "memory"): mebibytes_text(group.memory) if group.memory else "",
        accelerator(group.manufacturer, "driver-version"): label_value(group.driver_version),
        accelerator(group.manufacturer, "runtime-version"): label_value(group.runtime_version),
        accelerator(key, "family"): label_value(group.family),
        accelerator(key, "comcap"): label_value(group.compute_capability),
    }
    return required | {name: value for name, value in known.items() if value}


def general_keys(labels: Mapping[str, str]) -> list[str]:
    """The CPU keys that a node's labels name, sorted; a manufacturer alone is none."""
    return sorted(key for key in _marked(labels, GENERAL_PREFIX) if "-" in key)


def accelerator_keys(labels: Mapping[str, str], manufacturers: Manufacturers = MANUFACTURERS) -> list[str]:
    """The accelerator keys that a node's labels name, sorted."""
    marked = _marked(labels, ACCELERATOR_PREFIX)
    return sorted(key for key in marked if "-" in key and manufacturer_of(key) in manufacturers)


def devices_labels(
    *, os: str, arch: str, accelerator_keys: Iterable[str], managed: str = "", general_key: str = ""
) -> dict[str, str]:
    """Labels of a node's Devices. The agent gives system and cards; the operator the managed mark and the CPU's key."""
    labels = {OS: os, ARCH: arch, MANAGED: managed}
    labels = {key: value for key, value in labels.items() if value}
    if general_key:
        labels[general(general_key)] = TRUE
    return labels | {accelerator(key): TRUE for key in accelerator_keys}


# --- Labels of pools, and back ------------------------------------------------------------------------------------


def pool_labels(
    *, acceleratable: bool, general_group: str, accelerator_group: str, os: str, arch: str
) -> dict[str, str]:
    """What an InstanceType and its queue select by. The type's spec alone decides: `generic` joins all CPUs."""
    labels = {ACCELERATABLE: flag(acceleratable)}
    labels |= {key: value for key, value in ((OS, os), (ARCH, arch)) if value}
    if acceleratable and accelerator_group:
        labels[accelerator(accelerator_group)] = TRUE
    if general_group not in {"", GENERIC}:
        labels[general(general_group)] = TRUE
    return labels


def flavor_selector(labels: Mapping[str, str]) -> Selector | None:
    """The flavors that a pool with these labels is made of. None selects nothing.

    A pool of accelerators that names none would be a pool of all of them: that, too, is nothing.
    """
    marks = _feature_marks(labels)
    if labels.get(ACCELERATABLE) == TRUE and not any(key.startswith(ACCELERATOR_PREFIX) for key in marks):
        return None
    discriminators = {ACCELERATABLE: labels[ACCELERATABLE]} if ACCELERATABLE in labels else {}
    discriminators |= marks
    return _system(labels) | discriminators if discriminators else None


def devices_selector(labels: Mapping[str, str]) -> Selector | None:
    """The Devices of a pool with these labels. None, which a pool of any CPU gets, selects nothing."""
    marks = _feature_marks(labels)
    return _system(labels) | marks | {MANAGED: TRUE} if marks else None


def selects(selector: Selector | None, labels: Mapping[str, str]) -> bool:
    return selector is not None and all(labels.get(key) == value for key, value in selector.items())


def selector_text(selector: Selector) -> str:
    """The selector as the API server takes it in a list request."""
    return ",".join(f"{key}={value}" for key, value in sorted(selector.items()))


def _system(labels: Mapping[str, str]) -> dict[str, str]:
    return {key: labels[key] for key in (OS, ARCH) if key in labels}


def _feature_marks(labels: Mapping[str, str]) -> dict[str, str]:
    prefixes = (GENERAL_PREFIX, ACCELERATOR_PREFIX)
    return {key: value for key, value in labels.items() if value == TRUE and key.startswith(prefixes)}


def _marked(labels: Mapping[str, str], prefix: str) -> list[str]:
    """What stands behind the prefix in the labels whose value is exactly `true`."""
    return [key.removeprefix(prefix) for key, value in labels.items() if value == TRUE and key.startswith(prefix)]
