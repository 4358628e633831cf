"""The name of every object the operator and the agent make.

Promises  Every name is a legal object name whatever the keys hold: `_` becomes `-`, upper case becomes lower case, and
          a name past Kubernetes' limit is cut and told apart by a hash. Double dashes stand between the parts, since a
          key contains single ones.
"""

from __future__ import annotations

import re

from gpustack_op.scheduling.manufacturers import GENERIC

SYSTEM_NAMESPACE = "gpustack-system"
TOPOLOGY = "gpustack"
TOPOLOGY_LEVEL = "kubernetes.io/hostname"
"""The one level of our Topology: a placement names the node before the per-card check runs."""

NODE_DEVICES_CHECK = "gpustack-node-devices"
"""The AdmissionCheck that every accelerated queue lists."""

NODE_FEATURE_RULE = "gpustack-cpu-info"
SETTINGS_SECRET = "gpustack-settings"
DEVICE_MANAGER_PART_OF = "gpustack-operator-device-manager"
WORKER_PART_OF = "gpustack-operator-worker"

NAME_LIMIT = 253
"""Characters in an object name that is a DNS subdomain; Kubernetes' own limit."""

_LEAD = "gpustack--"
_ENTRANCE_LEAD = "gpustack-fnv64-"
_ILLEGAL = re.compile(r"[^a-z0-9.-]")
_EDGES = re.compile(r"[-.]*\.[-.]*")
_COUNT = re.compile(r"[0-9]+[cd]")


def cpu_flavor(general_key: str, os: str, arch: str, cores: int) -> str:
    return _fitted(f"{_LEAD}{general_key}-{os}-{arch}", f"-{cores}c")


def device_flavor(general_key: str, accelerator_key: str, os: str, arch: str, cards: int) -> str:
    return _fitted(f"{_LEAD}{general_key}--{accelerator_key}-{os}-{arch}", f"-{cards}d")


def pool(general_group: str, accelerator_group: str, os: str, arch: str) -> str:
    """A derived InstanceType and its ClusterQueue. `generic` (or empty) joins the pools of every CPU."""
    return _fitted(f"{_LEAD}{_grouping(general_group, accelerator_group)}-{os}-{arch}")


def catalog_row(general_group: str, accelerator_group: str) -> str:
    """An InstanceTypeFlavor: the same grouping as a pool, for every operating system and architecture."""
    return _fitted(_LEAD + _grouping(general_group, accelerator_group))


def entrance(pool_name: str) -> str:
    """The LocalQueue of a pool: of fixed length, so that it fits a label value whatever the pool is called."""
    return f"{_ENTRANCE_LEAD}{fnv1a64(pool_name):016x}"


def is_entrance(name: str) -> bool:
    return name.startswith(_ENTRANCE_LEAD)


def worker_feature(node: str) -> str:
    """The NodeFeature that the operator keeps for a node."""
    return _fitted(node, "-gpustack-worker")


def agent_feature(node: str) -> str:
    """The NodeFeature that a node's agent keeps."""
    return _fitted(node, "-gpustack-device-manager")


def count_in(flavor: str) -> int:
    """How many cores or cards one node of a flavor has, read from its name; 0 when the name tells nothing."""
    segments = reversed(flavor.rsplit("-fnv64-", 1)[0].split("-"))
    return next((int(segment[:-1]) for segment in segments if _COUNT.fullmatch(segment)), 0)


def object_name(text: str) -> str:
    """The nearest legal object name (or part of one)."""
    legal = _ILLEGAL.sub("-", text.lower())
    return _EDGES.sub(".", legal).strip("-.")


def fnv1a64(text: str) -> int:
    return _fnv1a(text, offset=14695981039346656037, prime=1099511628211, bits=64)


def fnv1a32(text: str) -> int:
    return _fnv1a(text, offset=2166136261, prime=16777619, bits=32)


def short_hash(text: str) -> str:
    """Eight hex digits that tell apart what sanitising has made alike."""
    return f"{fnv1a32(text):08x}"


def _fnv1a(text: str, *, offset: int, prime: int, bits: int) -> int:
    value = offset
    for byte in text.encode("utf-8", errors="surrogatepass"):
        value = (value ^ byte) * prime % (1 << bits)
    return value


def _grouping(general_group: str, accelerator_group: str) -> str:
    if not accelerator_group:
        return general_group or GENERIC
    return accelerator_group if general_group in {"", GENERIC} else f"{general_group}--{accelerator_group}"


def _fitted(head: str, tail: str = "") -> str:
    """`head` + `tail` as a legal name; too long a head is cut and closed with its hash, the tail stays whole."""
    legal = object_name(head)
    if len(legal) + len(tail) > NAME_LIMIT:
        legal = f"{object_name(legal[: NAME_LIMIT - len(tail) - 9])}-{short_hash(head)}"
    return object_name(legal + tail)
