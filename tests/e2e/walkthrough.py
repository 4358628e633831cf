"""What a person types in the walkthrough, and what they look at."""

from __future__ import annotations

import base64
import json
from functools import partial
from typing import Final

from devcluster.kubectl import Kubectl
from devcluster.paths import REPOSITORY
from tests.e2e.tables import Table, expected, read_table
from tests.e2e.waiting import eventually

EXAMPLES: Final = REPOSITORY / "docs" / "examples"
AWARENESS: Final = "instance-type-aware-cpu-manufacturer"

TABLES: Final = ("resourceflavor", "clusterqueue", "instancetype", "instancetypeflavor", "devices")

DERIVED: Final = tuple(row["NAME"] for row in expected("initial", "instancetype"))
CPU_AWARE: Final = tuple(row["NAME"] for row in expected("cpu-aware", "instancetype") if row["NAME"] not in DERIVED)


class Walkthrough:
    def __init__(self, kubectl: Kubectl) -> None:
        self.kubectl = kubectl

    async def table(self, kind: str) -> Table:
        return read_table(await self.kubectl("get", kind))

    async def shows(self, state: str, *kinds: str) -> None:
        """Each kind's table is, before long, the one of this state."""
        for kind in kinds:
            await eventually(partial(self.table, kind), expected(state, kind))

    async def manage(self, node: str, *, managed: bool) -> None:
        patch = {"spec": {"labels": {"gpustack.ai/managed": json.dumps(managed)}}}
        await self._patch("nodefeature", f"{node}-gpustack-worker", patch)

    async def tell_cpus_apart(self, wanted: bool, *, by: str = "setting") -> None:
        """A setting can be written in two places: in its `setting`, and in the `secret` that holds them all."""
        text = json.dumps(wanted)
        if by == "secret":
            encoded = base64.b64encode(text.encode()).decode()
            await self._patch("secret", "gpustack-settings", {"data": {AWARENESS: encoded}})
        else:
            await self._patch("setting", AWARENESS, {"spec": {"value": text}})

    async def add_custom_type(self) -> None:
        await self.kubectl("apply", "-f", str(EXAMPLES / "a10g-12c128g.yaml"))

    async def delete_types(self, *names: str) -> None:
        if names:
            await self.kubectl("delete", "instancetype", *names)

    async def restore(self) -> None:
        """Brings the cluster back to where the walkthrough begins, wherever a test has left it."""
        await self.manage("node-a10g", managed=True)
        await self.tell_cpus_apart(False)
        await self.shows("initial", "instancetypeflavor")
        added = {row["NAME"] for row in await self.table("instancetype")} - set(DERIVED)
        await self.delete_types(*added)
        await self.shows("initial", *TABLES)

    async def _patch(self, kind: str, name: str, patch: object) -> None:
        await self.kubectl("-n", "gpustack-system", "patch", kind, name, "--type=merge", "-p", json.dumps(patch))
