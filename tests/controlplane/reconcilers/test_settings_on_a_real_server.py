"""Settings go both ways between Secret and objects, and a bad one is told where it was written."""

from __future__ import annotations

import base64

from gpustack_op.api.core import SECRETS, Secret
from gpustack_op.api.worker import SETTINGS, Setting
from gpustack_op.runtime.config import ClientConfig
from tests.controlplane.reconcilers.stage import NAMESPACE, Stage, staged

SECRET = "gpustack-settings"
GRACE = "node-labels-grace-period"
AWARE = "instance-type-aware-cpu-manufacturer"


async def setting(stage: Stage, name: str, value: str, *, message: str | None = None) -> Setting:
    """The Setting once this is in force, and this complaint, or none, stands in its status."""
    return await stage.until_so(
        SETTINGS,
        name,
        lambda found: (found.status.value, found.status.message or None) == (value, message),
        within=NAMESPACE,
    )


async def stored(stage: Stage, name: str, value: str) -> Secret:
    wanted = base64.b64encode(value.encode()).decode()
    return await stage.until_so(
        SECRETS, SECRET, lambda secret: (secret.data or {}).get(name) == wanted, within=NAMESPACE
    )


async def write(stage: Stage, name: str, raw: bytes) -> None:
    data = {name: base64.b64encode(raw).decode()}
    await stage.edit(SECRETS, SECRET, {"data": data}, within=NAMESPACE)


async def test_both_ways(config: ClientConfig) -> None:
    async with staged(config, "settings") as stage:
        await stored(stage, AWARE, "false")
        await setting(stage, AWARE, "false")

        await write(stage, AWARE, b"true")
        assert (await setting(stage, AWARE, "true")).spec.value == "true"
        await stage.edit(SETTINGS, AWARE, {"spec": {"value": "false"}}, within=NAMESPACE)
        await stored(stage, AWARE, "false")
        await setting(stage, AWARE, "false")

        await stage.settle()
        assert stage.settings.current.instance_type_aware_cpu_manufacturer is False


async def test_what_is_deleted_comes_back(config: ClientConfig) -> None:
    async with staged(config, "settings") as stage:
        await write_when_there(stage)
        first = await setting(stage, GRACE, "90s")
        await stage.remove(SETTINGS, GRACE, within=NAMESPACE)
        again = await stage.until_so(SETTINGS, GRACE, lambda found: found.uid != first.uid, within=NAMESPACE)
        assert again.spec.value == "90s"
        await setting(stage, GRACE, "90s")
        await stage.remove(SECRETS, SECRET, within=NAMESPACE)
        await stage.until_there(SECRETS, SECRET, within=NAMESPACE)


async def write_when_there(stage: Stage) -> None:
    await stored(stage, GRACE, "60s")
    await setting(stage, GRACE, "60s")
    await write(stage, GRACE, b"90s")


BAD = {
    b"10x": '"10x" is no duration; write for example 90s, 5m or 1h30m',
    b"-5s": '"-5s" is negative; a duration is 0s or more',
    b"\xff\xfe\x00": "its bytes are no UTF-8 text",
    b"": '"" is no duration; write for example 90s, 5m or 1h30m',
    b"60s\x00": '"60s\\x00" is no duration; write for example 90s, 5m or 1h30m',
}


async def complaint(stage: Stage, raw: bytes) -> str:
    """What stands in the Setting's status after this was written; afterwards the value is good again."""
    await write(stage, GRACE, raw)
    found = await stage.until_so(SETTINGS, GRACE, lambda s: s.status.message, within=NAMESPACE)
    assert stage.settings.current.node_labels_grace_period == 90.0
    await write(stage, GRACE, b"90s")
    await setting(stage, GRACE, "90s")
    return found.status.message or ""


async def test_a_bad_key_keeps_the_last_good_value_and_says_so_while_others_go_on(config: ClientConfig) -> None:
    async with staged(config, "settings") as stage:
        await write_when_there(stage)
        await setting(stage, GRACE, "90s")

        told = {raw: await complaint(stage, raw) for raw in BAD}

        assert told == {
            raw: f'key {GRACE} of Secret {SECRET}: {refusal}. In force is "90s".' for raw, refusal in BAD.items()
        }
        await write(stage, GRACE, b"10x")
        await write(stage, AWARE, b"true")
        await setting(stage, AWARE, "true")
        await stage.until(lambda: told_of(stage, set(told.values())))


async def told_of(stage: Stage, messages: set[str]) -> bool:
    """Whether each has its Event."""
    return set(await stage.notes("SettingRefused")) == {f'Setting "{NAMESPACE}/{GRACE}": {each}' for each in messages}


async def test_a_misspelt_key_is_told_on_the_secret(config: ClientConfig) -> None:
    async with staged(config, "settings") as stage:
        await stored(stage, AWARE, "false")
        await write(stage, "instance-type-aware-cpu-manufacturers", b"true")
        notes = await stage.until(lambda: stage.notes("UnknownSetting"))
        assert notes == [
            'Secret "gpustack-system/gpustack-settings": there is no setting "instance-type-aware-cpu-manufacturers"; '
            "did you mean instance-type-aware-cpu-manufacturer?"
        ]


async def test_a_new_process_keeps_the_last_good_value(config: ClientConfig) -> None:
    async with staged(config, "settings") as stage:
        await write_when_there(stage)
        await setting(stage, GRACE, "90s")
        await write(stage, GRACE, b"10x")
        await stage.until_so(SETTINGS, GRACE, lambda s: s.status.message, within=NAMESPACE)
    async with staged(config, "settings") as stage:
        await stage.settle()
        assert stage.settings.current.node_labels_grace_period == 90.0
        assert (await stage.people.get(SETTINGS, GRACE, NAMESPACE)).status.value == "90s"
