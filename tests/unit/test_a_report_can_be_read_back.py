"""What one agent reports, the next one remembers; what is charged stays with its card."""

from __future__ import annotations

import msgspec
import pytest

from gpustack_op.agent import bodies
from gpustack_op.agent.cpu import Cpu
from gpustack_op.agent.health import Health
from gpustack_op.agent.ledger import charged, kept_ledger, ledger_json, rows_of
from gpustack_op.agent.recall import SEEN_IN_BOOT, recalled_roster
from gpustack_op.agent.recovery_setting import DEFAULT_RECOVERY, recovery_period
from gpustack_op.agent.roster import Known, Roster
from gpustack_op.api.meta import ObjectMeta
from gpustack_op.api.worker import DeviceGroup, Devices, PhysicalProfile, Setting, SettingStatus
from gpustack_op.scheduling.device_groups import RawCard, device_groups
from tests import builders
from tests.builders import exclusive, free, raw_card, shared, sliced

T4 = {"memory_mib": 15360, "bus_width": 256, "cores": 2560, "compute_capability": (7, 5)}


def roster(*cards: RawCard, boot: str = "one") -> Roster:
    return tuple(Known(card, boot, Health(unhealthy=not card.healthy, since=0.0)) for card in cards)


def groups_of(cards: Roster) -> tuple[DeviceGroup, ...]:
    return device_groups(known.reported for known in cards)


def reported(cards: Roster) -> Devices:
    """The Devices that the API server would hand back."""
    body = bodies.devices(builders.node("a10g"), groups_of(cards), cards)
    return msgspec.convert(body, Devices)


# --- Bodies -------------------------------------------------------------------------------------------------------


def test_a_node_feature_tells_the_cpu_and_the_accelerators() -> None:
    body = bodies.node_feature(
        builders.node("a10g"),
        Cpu(vendor="AMD", name="AMD EPYC 7R32", cores=4),
        groups_of(roster(raw_card())),
        namespace="gpustack-system",
    )
    assert body["metadata"] == {
        "name": "node-a10g-gpustack-device-manager",
        "namespace": "gpustack-system",
        "labels": {
            "nfd.node.kubernetes.io/node-name": "node-a10g",
            "app.kubernetes.io/part-of": "gpustack-operator-device-manager",
        },
        "ownerReferences": [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "name": "node-a10g",
                "uid": "uid-of-node-a10g",
                "controller": True,
                "blockOwnerDeletion": False,
            }
        ],
    }
    assert body["spec"]["features"] == {
        "attributes": {
            "gpustack.cpu": {"elements": {"vendor_id": "AMD", "name": "AMD EPYC 7R32", "logical_cores": "4"}}
        },
        "flags": {"gpustack.device": {"elements": {"present": {}}}},
    }
    assert body["spec"]["labels"]["acceleratable.feature.gpustack.ai/nvidia-a10g.memory"] == "24Gi"


def test_a_node_without_accelerators_tells_its_cpu_alone() -> None:
    body = bodies.node_feature(builders.node("cpu"), Cpu(cores=16), (), namespace="gpustack-system")
    assert body["spec"] == {
        "labels": {},
        "features": {"attributes": {"gpustack.cpu": {"elements": {"logical_cores": "16"}}}, "flags": {}},
    }


def test_devices_carry_the_labels_that_are_ours_and_no_other() -> None:
    cards = roster(raw_card(), raw_card("Tesla T4", **T4))
    metadata = bodies.devices(builders.node("a10g"), groups_of(cards), cards)["metadata"]
    assert metadata["labels"] == {
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "acceleratable.feature.gpustack.ai/nvidia-a10g": "true",
        "acceleratable.feature.gpustack.ai/nvidia-tesla-t4": "true",
    }


@pytest.mark.parametrize(
    ("name", "key"),
    [
        pytest.param("", "nvidia-card-811c9dc5", id="no product name"),
        pytest.param("K100_AI___X", "nvidia-k100_ai_x", id="underscores"),
    ],
)
def test_odd_product_names_make_legal_labels(name: str, key: str) -> None:
    cards = roster(raw_card(name))
    labels = bodies.devices(builders.node("a10g"), groups_of(cards), cards)["metadata"]["labels"]
    assert f"acceleratable.feature.gpustack.ai/{key}" in labels


# --- Recall -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cards",
    [
        pytest.param(roster(raw_card()), id="ECC is not counted twice"),
        pytest.param(roster(raw_card(uuid="a"), raw_card("Tesla T4", uuid="b", **T4), raw_card(uuid="c")), id="mixed"),
        pytest.param(roster(raw_card(healthy=False)), id="sick"),
        pytest.param(roster(raw_card(memory_mib=None)), id="no memory figure"),
        pytest.param(roster(raw_card(uuid="a"), raw_card(uuid="b", memory_mib=46068)), id="two memory sizes"),
        pytest.param(
            roster(raw_card(mig_mode=True, profiles=(PhysicalProfile(name="1g.5gb", count=7, memory_mib=4864),))),
            id="partitioned",
        ),
        pytest.param(roster(RawCard(manufacturer="nvidia", uuid="a")), id="nothing known"),
        pytest.param(
            roster(raw_card(minor=3, pci_bus_id="00:1E.0", numa_affinity="0", cpu_affinity="0-3")), id="place"
        ),
    ],
)
def test_what_was_reported_makes_the_same_report_again(cards: Roster) -> None:
    recalled = recalled_roster(reported(cards), ())
    assert groups_of(recalled) == groups_of(cards)
    assert [known.boot_id for known in recalled] == ["one" for _ in cards]


def test_a_card_reported_sick_has_its_whole_recovery_before_it() -> None:
    recalled = recalled_roster(reported(roster(raw_card(healthy=False))), ())
    assert recalled[0].health == Health(unhealthy=True, since=None)


def test_cards_that_another_agent_reported_are_not_recalled() -> None:
    ours = reported(roster(raw_card(uuid="ours")))
    theirs = builders.devices("n", free(), key="nvidia-a10g")
    recalled = recalled_roster(builders.with_groups_of(ours, theirs), ("nvidia",))
    assert [known.card.uuid for known in recalled] == ["ours"]


@pytest.mark.parametrize("annotation", ["", "{", "[]", "[" * 5000])
def test_without_its_annotation_a_report_is_recalled_by_manufacturer(annotation: str) -> None:
    theirs = builders.devices("n", free(), key="amd-mi300x")
    bare = builders.with_groups_of(builders.devices("n", free(), key="nvidia-a10g"), theirs)
    bare = msgspec.structs.replace(bare, metadata=ObjectMeta(name="n", annotations={SEEN_IN_BOOT: annotation}))
    assert [(known.card.manufacturer, known.boot_id) for known in recalled_roster(bare, ("nvidia",))] == [
        ("nvidia", "")
    ]
    assert recalled_roster(bare, ()) == ()


def test_no_report_recalls_no_card() -> None:
    assert recalled_roster(None, ("nvidia",)) == ()


# --- Ledger -------------------------------------------------------------------------------------------------------


def test_a_new_card_is_free() -> None:
    assert kept_ledger([builders.group("nvidia-a10g")], {}) == [
        {
            "id": "a10g",
            "manufacturer": "nvidia",
            "accelerators": [{"id": "GPU-nvidia-a10g-0", "index": 0, "mode": 0, "remaining": 1600000}],
        }
    ]


def test_what_is_charged_stays_with_its_card() -> None:
    present = builders.devices("n", exclusive(), shared(3), free())
    ledger = kept_ledger(present.spec.groups or (), rows_of(present))
    assert ledger[0]["accelerators"] == [
        {"id": "GPU-n-0", "index": 0, "mode": 1},
        {"id": "GPU-n-1", "index": 1, "mode": 2, "remaining": 1120000},
        {"id": "GPU-n-2", "index": 2, "mode": 0, "remaining": 1600000},
    ]


def test_an_account_follows_its_card_to_another_index() -> None:
    rows = rows_of(builders.devices("nvidia-a10g", sliced(20)))
    moved = builders.group("nvidia-a10g", cards=1)
    card = msgspec.structs.replace((moved.accelerators or ())[0], index=5)
    ledger = kept_ledger([msgspec.structs.replace(moved, accelerators=(card,))], rows)
    assert ledger[0]["accelerators"] == [{"id": "GPU-nvidia-a10g-0", "index": 5, "mode": 3, "remaining": 1280000}]


def test_charged_are_the_cards_that_are_not_wholly_free() -> None:
    present = builders.devices("n", exclusive(), free(), sliced(1), free(healthy=False))
    assert charged(rows_of(present)) == {"GPU-n-0", "GPU-n-2"}
    assert charged(rows_of(None)) == frozenset()


def test_accounts_of_others_are_written_as_they_were_read() -> None:
    present = builders.devices("n", exclusive(), shared(1))
    assert ledger_json(present.status.groups or ()) == kept_ledger(present.spec.groups or (), rows_of(present))


# --- Setting ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("90s", 90.0),
        ("1m30s", 90.0),
        ("0s", 0.0),
        ("500ms", 0.5),
        ("1.5h", 5400.0),
        ("45", 45.0),
        ("", DEFAULT_RECOVERY),
        ("10x", DEFAULT_RECOVERY),
        ("-5s", DEFAULT_RECOVERY),
    ],
)
def test_the_recovery_period_is_the_last_good_value(value: str, seconds: float) -> None:
    assert recovery_period(Setting(status=SettingStatus(value=value))) == seconds


def test_without_the_setting_the_default_counts() -> None:
    assert recovery_period(None) == 60.0
