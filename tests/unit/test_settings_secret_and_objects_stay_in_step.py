"""The settings reconciler against a small store: edits on either side, crashes between writes, and silence."""

from __future__ import annotations

import base64
import contextlib
import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from gpustack_op.api.core import SECRETS
from gpustack_op.api.meta import Resource
from gpustack_op.api.worker import SETTINGS
from gpustack_op.operator.settings.catalog import CATALOG, DEFAULTS
from gpustack_op.operator.settings.live import LiveSettings
from gpustack_op.operator.settings.reconciler import SettingsReconciler
from gpustack_op.operator.settings.sources import COPIED, Sources
from gpustack_op.runtime.apply import Writer
from gpustack_op.runtime.cache import EVERYTHING, Informer
from gpustack_op.runtime.errors import NotFound

NAMESPACE = "gpustack-system"
SECRET = "gpustack-settings"
AWARE = "instance-type-aware-cpu-manufacturer"
GRACE = "node-labels-grace-period"


class CrashError(Exception):
    """The process ends before this write."""


@dataclass
class Store:
    """What the API server keeps, shown to the informers at once; every write but a person's is counted."""

    informers: dict[str, Informer[Any]]
    objects: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    writes: list[str] = field(default_factory=list)
    crash_after: int | None = None
    version: int = 0

    async def create(
        self, resource: Resource[Any], body: Mapping[str, Any], *, namespace: str = "", field_manager: str = ""
    ) -> Any:
        self._count(f"create {resource.kind}")
        return self.put(resource, merged({"metadata": {"namespace": namespace}}, body))

    async def merge_patch(
        self, resource: Resource[Any], name: str, patch: Mapping[str, Any], *, namespace: str = "", **_: str
    ) -> Any:
        self._count(f"patch {resource.kind}")
        present = self.objects[resource.kind, name]
        assert patch["metadata"]["resourceVersion"] == present["metadata"]["resourceVersion"]
        return self.put(resource, merged(present, patch))

    async def apply(self, resource: Resource[Any], body: Mapping[str, Any], *, subresource: str = "", **_: Any) -> Any:
        self._count(f"apply {resource.kind} {subresource}")
        present = self.objects[resource.kind, body["metadata"]["name"]]
        return self.put(resource, {**present, "status": body["status"]})

    async def get(self, resource: Resource[Any], name: str, namespace: str = "") -> Any:
        raise NotFound(404, "NotFound", f"{resource} {namespace}/{name}")

    async def delete(self, *_: Any, **__: Any) -> None:
        raise AssertionError("settings are never deleted")

    def put(self, resource: Resource[Any], document: dict[str, Any]) -> Any:
        self.version += 1
        name = document["metadata"]["name"]
        metadata = {"uid": f"uid-{name}", **document["metadata"], "resourceVersion": str(self.version)}
        document = {**document, "metadata": metadata}
        self.objects[resource.kind, name] = document
        shown = msgspec.json.decode(json.dumps(document), type=resource.model)
        self.informers[resource.kind].put(shown)
        return shown

    def drop(self, resource: Resource[Any], name: str) -> None:
        self.version += 1
        document = self.objects.pop((resource.kind, name))
        document["metadata"]["resourceVersion"] = str(self.version)
        self.informers[resource.kind].remove(msgspec.json.decode(json.dumps(document), type=resource.model))

    def _count(self, write: str) -> None:
        if self.crash_after is not None and len(self.writes) >= self.crash_after:
            raise CrashError(write)
        self.writes.append(write)


def merged(target: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """RFC 7386."""
    result = copy.deepcopy(dict(target))
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            result[key] = merged(result.get(key) or {}, value)
        else:
            result[key] = value
    return result


@dataclass
class Told:
    """A recorder that keeps what it is told."""

    events: list[tuple[str, str]] = field(default_factory=list)

    def event(self, _regarding: Any, _type: str, reason: str, message: str, **_: Any) -> None:
        self.events.append((reason, message))


class Cluster:
    """One operator, one person."""

    def __init__(self, seeds: Mapping[str, str] = DEFAULTS) -> None:
        secrets, settings = Informer(SECRETS, EVERYTHING), Informer(SETTINGS, EVERYTHING)
        self.sources = Sources(secrets, settings, NAMESPACE)
        self.store = Store({"Secret": secrets, "Setting": settings})
        self.told = Told()
        self.live = LiveSettings(self.sources, seeds=seeds)
        self.seeds = seeds
        self.start()

    def start(self) -> None:
        """A new process on the same store."""
        writer = Writer(self.store, "gpustack-settings")
        client: Any = self.store
        recorder: Any = self.told
        self.reconciler = SettingsReconciler(self.sources, client, writer, recorder, seeds=self.seeds)

    async def settle(self) -> list[str]:
        """Reconciles until nothing is written; the writes of the first pass."""
        self.store.crash_after = None
        self.store.writes.clear()
        await self.reconciler.reconcile(self.reconciler.only)
        first = list(self.store.writes)
        await self.reconciler.reconcile(self.reconciler.only)
        assert self.store.writes == first
        return first

    async def crash(self, after: int) -> None:
        """One pass that ends before its write number `after` + 1, if it has that many."""
        self.store.writes.clear()
        self.store.crash_after = after
        with contextlib.suppress(CrashError):
            await self.reconciler.reconcile(self.reconciler.only)
        self.store.crash_after = None
        self.start()

    def patch_secret(self, name: str, text: str | bytes | None) -> None:
        raw = text.encode() if isinstance(text, str) else text
        data = {name: None if raw is None else base64.b64encode(raw).decode()}
        self.store.put(SECRETS, merged(self.store.objects["Secret", SECRET], {"data": data}))

    def patch_setting(self, name: str, text: str | None) -> None:
        self.store.put(SETTINGS, merged(self.store.objects["Setting", name], {"spec": {"value": text}}))

    def stored(self, name: str) -> str:
        return base64.b64decode(self.store.objects["Secret", SECRET]["data"][name]).decode()

    def setting(self, name: str) -> dict[str, Any]:
        return self.store.objects["Setting", name]

    def everywhere(self, name: str) -> tuple[str, str, str]:
        """The Secret's key, the Setting's spec, the Setting's status."""
        setting = self.setting(name)
        return self.stored(name), setting["spec"]["value"], setting["status"]["value"]


@pytest.fixture
async def cluster() -> Cluster:
    settled = Cluster()
    await settled.settle()
    return settled


async def test_the_first_start_stores_the_seeds_and_makes_every_setting() -> None:
    cluster = Cluster({**DEFAULTS, GRACE: "5m"})
    await cluster.settle()
    assert {name: cluster.everywhere(name) for name in CATALOG} == {
        name: (text, text, text) for name, text in {**DEFAULTS, GRACE: "5m"}.items()
    }
    assert cluster.setting(GRACE)["status"] == {
        "value": "5m",
        "default": "60s",
        "type": "duration",
        "description": CATALOG[GRACE].description,
    }


async def test_a_stored_key_is_never_overwritten_by_a_seed() -> None:
    cluster = Cluster({**DEFAULTS, GRACE: "5m"})
    data = {GRACE: base64.b64encode(b"90s").decode()}
    cluster.store.put(SECRETS, {"metadata": {"name": SECRET, "namespace": NAMESPACE}, "data": data})
    await cluster.settle()
    assert cluster.everywhere(GRACE) == ("90s", "90s", "90s")
    assert cluster.stored(AWARE) == "false"


async def test_a_settled_cluster_sees_no_write_after_a_restart(cluster: Cluster) -> None:
    cluster.start()
    assert await cluster.settle() == []


async def test_an_edited_secret_reaches_the_setting(cluster: Cluster) -> None:
    cluster.patch_secret(AWARE, "true")
    assert await cluster.settle() == ["patch Setting", "apply Setting status", "patch Setting"]
    assert cluster.everywhere(AWARE) == ("true", "true", "true")
    assert COPIED not in cluster.setting(AWARE)["metadata"]["annotations"]


async def test_an_edited_setting_reaches_the_secret(cluster: Cluster) -> None:
    cluster.patch_setting(AWARE, "true")
    assert await cluster.settle() == ["patch Secret", "apply Setting status"]
    assert cluster.everywhere(AWARE) == ("true", "true", "true")


@pytest.mark.parametrize("after", range(6))
async def test_a_crash_while_the_secret_is_copied_loses_no_later_edit_of_it(cluster: Cluster, after: int) -> None:
    cluster.patch_secret(AWARE, "true")
    await cluster.crash(after)
    cluster.patch_secret(AWARE, "f")
    await cluster.settle()
    assert cluster.everywhere(AWARE) == ("f", "f", "f")


@pytest.mark.parametrize("after", range(6))
async def test_a_crash_while_the_secret_is_copied_loses_no_edit_of_the_setting(cluster: Cluster, after: int) -> None:
    cluster.patch_secret(AWARE, "true")
    await cluster.crash(after)
    cluster.patch_setting(AWARE, "f")
    await cluster.settle()
    assert cluster.everywhere(AWARE) == ("f", "f", "f")


@pytest.mark.parametrize("after", range(6))
async def test_a_crash_while_an_edit_is_stored_loses_neither_it_nor_the_next(cluster: Cluster, after: int) -> None:
    cluster.patch_setting(AWARE, "true")
    await cluster.crash(after)
    assert cluster.live.current.instance_type_aware_cpu_manufacturer is True
    cluster.patch_setting(AWARE, "t")
    await cluster.settle()
    assert cluster.everywhere(AWARE) == ("t", "t", "t")


@pytest.mark.parametrize("after", range(0, 60, 7))
async def test_a_crash_during_the_first_start_is_made_good(after: int) -> None:
    cluster = Cluster()
    await cluster.crash(after)
    await cluster.settle()
    assert {name: cluster.everywhere(name) for name in CATALOG} == {n: (t, t, t) for n, t in DEFAULTS.items()}


async def test_a_bad_key_keeps_the_last_good_value_over_a_restart_and_says_so_once(cluster: Cluster) -> None:
    cluster.patch_secret(GRACE, "5m")
    await cluster.settle()
    cluster.patch_secret(GRACE, "10x")
    await cluster.settle()
    cluster.start()
    await cluster.settle()
    message = (
        'key node-labels-grace-period of Secret gpustack-settings: "10x" is no duration; '
        'write for example 90s, 5m or 1h30m. In force is "5m".'
    )
    assert cluster.everywhere(GRACE) == ("10x", "5m", "5m")
    assert cluster.setting(GRACE)["status"]["message"] == message
    assert cluster.told.events == [("SettingRefused", f'Setting "{NAMESPACE}/{GRACE}": {message}')]
    assert cluster.live.current.node_labels_grace_period == 300.0


async def test_a_good_key_after_a_bad_one_takes_the_message_away(cluster: Cluster) -> None:
    cluster.patch_secret(GRACE, b"\xff")
    await cluster.settle()
    cluster.patch_secret(GRACE, "90s")
    await cluster.settle()
    assert cluster.everywhere(GRACE) == ("90s", "90s", "90s")
    assert "message" not in cluster.setting(GRACE)["status"]


async def test_a_bad_edit_of_a_setting_is_refused_and_changes_nothing(cluster: Cluster) -> None:
    cluster.patch_setting(GRACE, "-5s")
    await cluster.settle()
    assert cluster.everywhere(GRACE) == ("60s", "-5s", "60s")
    assert cluster.setting(GRACE)["status"]["message"] == (
        'spec.value: "-5s" is negative; a duration is 0s or more. In force is "60s".'
    )


async def test_a_deleted_setting_is_made_again_with_its_value(cluster: Cluster) -> None:
    cluster.patch_setting(AWARE, "true")
    await cluster.settle()
    cluster.store.drop(SETTINGS, AWARE)
    await cluster.settle()
    assert cluster.everywhere(AWARE) == ("true", "true", "true")


async def test_a_removed_key_comes_back_with_its_seed(cluster: Cluster) -> None:
    cluster.patch_setting(AWARE, "true")
    await cluster.settle()
    cluster.patch_secret(AWARE, None)
    await cluster.settle()
    assert cluster.everywhere(AWARE) == ("false", "false", "false")


async def test_an_emptied_spec_is_filled_again(cluster: Cluster) -> None:
    cluster.patch_setting(AWARE, None)
    await cluster.settle()
    assert cluster.everywhere(AWARE) == ("false", "false", "false")


async def test_an_unknown_key_is_reported_once_and_left_alone(cluster: Cluster) -> None:
    cluster.patch_secret("node-managment-manual", "true")
    assert await cluster.settle() == []
    assert cluster.told.events == [
        (
            "UnknownSetting",
            f'Secret "{NAMESPACE}/{SECRET}": there is no setting "node-managment-manual"; '
            "did you mean node-management-manual?",
        )
    ]
    assert cluster.stored("node-managment-manual") == "true"


async def test_a_setting_of_an_unknown_name_says_so(cluster: Cluster) -> None:
    cluster.store.put(SETTINGS, {"metadata": {"name": "qqq", "namespace": NAMESPACE}, "spec": {"value": "1"}})
    await cluster.settle()
    message = cluster.setting("qqq")["status"]["message"]
    assert message.startswith('there is no setting "qqq"; one of: ')
    assert message.endswith("Delete this object.")


async def test_live_settings_follow_at_once_and_tell_only_what_changed(cluster: Cluster) -> None:
    told: list[tuple[frozenset[str], bool]] = []
    cluster.live.subscribe(
        lambda names: told.append((names, cluster.live.current.instance_type_aware_cpu_manufacturer))
    )
    cluster.patch_secret(AWARE, "true")
    await cluster.settle()
    cluster.patch_secret(AWARE, "t")
    await cluster.settle()
    cluster.patch_setting(AWARE, "false")
    await cluster.settle()
    assert told == [(frozenset({AWARE}), True), (frozenset({AWARE}), False)]


async def test_a_subscriber_that_raises_stops_no_other(cluster: Cluster) -> None:
    told: list[frozenset[str]] = []

    def raising(_names: frozenset[str]) -> None:
        raise RuntimeError("a defect")

    cluster.live.subscribe(raising)
    cluster.live.subscribe(told.append)
    cluster.patch_secret(AWARE, "true")
    assert told == [frozenset({AWARE})]
