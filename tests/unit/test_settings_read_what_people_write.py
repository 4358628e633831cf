"""The settings' types, their catalog, and the typed values."""

from __future__ import annotations

from dataclasses import fields

import pytest

from gpustack_op.operator.settings.catalog import CATALOG, DEFAULTS, seeds, unknown
from gpustack_op.operator.settings.value_types import (
    Bool,
    Choice,
    Duration,
    SettingError,
    Text,
    TextList,
    Value,
    ValueType,
)
from gpustack_op.operator.settings.values import Settings

ALLOW = Choice(("allow", "refuse"))


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        *[(Bool(), text, True) for text in ("1", "t", "T", "true", "TRUE", "True", " true ", "true\n")],
        *[(Bool(), text, False) for text in ("0", "f", "F", "false", "FALSE", "False")],
        (Duration(), "60s", 60.0),
        (Duration(), "1h30m", 5400.0),
        (Duration(), "1.5m", 90.0),
        (Duration(), "250ms", 0.25),
        (Duration(), "0", 0.0),
        (Duration(), "0s\n", 0.0),
        (ALLOW, "refuse", "refuse"),
        (Text(), "", ""),
        (Text(), " registry.example.com ", "registry.example.com"),
        (TextList(), "", ()),
        (TextList(), "  ", ()),
        (TextList(), "a,,b", ("a", "b")),
        (TextList(), " a , b ", ("a", "b")),
    ],
)
def test_what_is_accepted(type_: ValueType, text: str, value: Value) -> None:
    assert type_.parse(text) == value


@pytest.mark.parametrize(
    ("type_", "text", "message"),
    [
        (Bool(), "maybe", '"maybe" is no boolean; write true or false'),
        (Bool(), "tRUE", '"tRUE" is no boolean; write true or false'),
        (Bool(), "", '"" is no boolean; write true or false'),
        (Duration(), "10x", '"10x" is no duration; write for example 90s, 5m or 1h30m'),
        (Duration(), "60", '"60" is no duration; write for example 90s, 5m or 1h30m'),
        (Duration(), "６0s", '"６0s" is no duration; write for example 90s, 5m or 1h30m'),
        (Duration(), "-5s", '"-5s" is negative; a duration is 0s or more'),
        (Duration(), "99999h", '"99999h" is too long; the longest duration is 366 days, 8784h'),
        (ALLOW, "Allow", '"Allow" is not allowed; write allow or refuse'),
        (Text(blank=False), " ", "the value is blank; write a text"),
        (Text(), "a\nb", '"a\\nb" has characters that cannot be printed; write one line of plain text'),
        (Bool(), "x" * 80, f'"{"x" * 57}…" is no boolean; write true or false'),
    ],
)
def test_what_is_refused_is_quoted_with_the_remedy(type_: ValueType, text: str, message: str) -> None:
    with pytest.raises(SettingError) as refused:
        type_.parse(text)
    assert str(refused.value) == message


def test_every_default_parses_and_every_setting_has_a_typed_attribute() -> None:
    assert [declared.refusal(declared.default) for declared in CATALOG.values()] == [None] * len(CATALOG)
    assert {field.name for field in fields(Settings)} == {declared.attribute for declared in CATALOG.values()}
    annotated = {field.name: field.type for field in fields(Settings)}
    assert {name: type(value).__name__ for name, value in vars_of(Settings()).items()} == annotated


def vars_of(settings: Settings) -> dict[str, object]:
    return {field.name: getattr(settings, field.name) for field in fields(settings)}


def test_the_defaults_are_those_documented() -> None:
    assert DEFAULTS == {
        "node-management-manual": "false",
        "node-labels-grace-period": "60s",
        "accelerator-recovery-period": "60s",
        "accelerators-outside-queues": "allow",
        "instance-type-derived-from-node": "true",
        "instance-type-mixed-on-node": "true",
        "instance-type-aware-cpu-manufacturer": "false",
        "instance-type-drain-when-no-flavors": "false",
        "workload-fit-affinity": "true",
        "instance-general-resources-overcommit": "true",
        "instance-privileged-allowed": "false",
        "instance-host-path-volume-allowed": "false",
        "instance-persistent-volume-placement": "true",
        "instance-ssh-server-image": "gpustack/ssh-server:v1.3.0",
        "instance-access-static-address": "",
        "instance-access-wildcard-dns": "",
        "container-registry": "",
        "container-namespace": "",
    }


def test_what_is_missing_or_unreadable_is_the_default_for_every_type() -> None:
    unreadable = dict.fromkeys(CATALOG, "\x00")
    assert Settings.of({}) == Settings.of(unreadable) == Settings()


def test_values_are_typed() -> None:
    texts = {"node-labels-grace-period": "5m", "node-management-manual": "T", "accelerators-outside-queues": "refuse"}
    settings = Settings.of({**texts, "no-such-setting": "x"})
    assert settings == Settings(
        node_labels_grace_period=300.0, node_management_manual=True, accelerators_outside_queues="refuse"
    )
    assert settings.changed(Settings()) == set(texts)


def test_the_environment_seeds_and_a_bad_variable_is_named() -> None:
    texts, complaints = seeds(
        {
            "GPUSTACK_NODE_MANAGEMENT_MANUAL": "true",
            "GPUSTACK_NODE_LABELS_GRACE_PERIOD": "10x",
            "GPUSTACK_CONTAINER_REGISTRY": "",
        }
    )
    assert texts == {**DEFAULTS, "node-management-manual": "true"}
    assert complaints == ['GPUSTACK_NODE_LABELS_GRACE_PERIOD: "10x" is no duration; write for example 90s, 5m or 1h30m']


def test_a_name_that_does_not_exist_gets_a_hint() -> None:
    assert unknown("node-managment-manual") == (
        'there is no setting "node-managment-manual"; did you mean node-management-manual?'
    )
    assert unknown("qqq").startswith('there is no setting "qqq"; one of: accelerator-recovery-period, ')
