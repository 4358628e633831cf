"""What a device plugin stands on: the machine as the monitor sees it, and the cluster as the agent watches it.

Kept apart from all else here, so that an agent that gives out no cards loads nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpustack_op.agent.informers import AgentInformers
from gpustack_op.agent.sight import Sight
from gpustack_op.api.worker import DeviceGroup
from gpustack_op.runtime.cache import Caches
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.events import Recorder
from gpustack_op.runtime.metrics import Metrics
from gpustack_op.scheduling.device_groups import device_groups


@dataclass(frozen=True, slots=True)
class Machine:
    detector: object
    sight: Callable[[], Sight | None]
    with_memory: bool = False

    def groups(self) -> Sequence[DeviceGroup] | None:
        """The same groups that are reported."""
        seen = self.sight()
        if seen is None:
            return None
        return device_groups((known.reported for known in seen.roster), with_memory=self.with_memory)


@dataclass(frozen=True, slots=True)
class Cluster:
    """The agent's connection to its cluster, and what it already watches."""

    client: Client
    caches: Caches
    informers: AgentInformers
    recorder: Recorder
    metrics: Metrics
