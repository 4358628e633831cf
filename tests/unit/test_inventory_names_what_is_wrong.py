"""A broken card is told of and left out; a broken file is refused; odd product names are nobody's error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpustack_op.agent.inventory import InventoryError, load, parse

MACHINE = "node: n\ncpu: {cores: 4}\nmemory: 64Gi\n"
GOOD_CARD = "{manufacturer: nvidia, uuid: GPU-1, name: Tesla T4, memoryMib: 15360}"


def with_cards(*cards: str) -> str:
    return MACHINE + "accelerators:\n" + "".join(f"- {card}\n" for card in cards)


def test_every_field_is_read() -> None:
    machine = parse(
        """
node: node-a10g
os: linux
arch: amd64
kernel: "6.8.0-1021"
bootId: 3f0c
osRelease: {id: ubuntu, versionId: "24.04"}
cpu: {vendor: AMD, family: 23, model: 49, name: "AMD EPYC 7R32", cores: 4, physicalCores: 2, threadsPerCore: 2,
  stepping: 0, hz: 2800000000, boostFreq: 3300000000, cacheLine: 64, cacheL1i: 32768, cacheL1d: 32768,
  cacheL2: 524288, cacheL3: 16777216}
memory: 64Gi
ephemeralStorage: 500Gi
pods: 110
driver: {version: "580.159.03", cuda: 13000}
accelerators:
- {manufacturer: nvidia, name: NVIDIA A10G, uuid: GPU-1, minor: 0, pciBusId: "00000000:00:1E.0", memoryMib: 23028,
   busWidth: 384, eccEnabled: true, cores: 10240, computeCapability: "8.6", migMode: false, healthy: true}
""",
        file="a10g.yaml",
    )
    card = machine.accelerators[0]
    assert (machine.node, machine.boot_id, machine.os_release.version_id) == ("node-a10g", "3f0c", "24.04")
    assert (machine.cpu.name, machine.cpu.stepping, machine.cpu.cache_l3) == ("AMD EPYC 7R32", 0, 16777216)
    assert (machine.driver.version, machine.driver.cuda) == ("580.159.03", 13000)
    assert (card.name, card.memory_mib, card.ecc_enabled, card.mig_mode) == ("NVIDIA A10G", 23028, True, False)
    assert machine.broken == ()


@pytest.mark.parametrize("name", ["", "x" * 80, "K100_AI___", "名前", "\u0000"])
def test_any_product_name_is_a_legal_input(name: str) -> None:
    card = {"manufacturer": "nvidia", "uuid": "GPU-1", "name": name}
    machine = parse(MACHINE + f"accelerators: [{json.dumps(card)}]", file="f.yaml")
    assert [card.name for card in machine.accelerators] == [name]


@pytest.mark.parametrize(
    ("card", "message"),
    [
        pytest.param(
            "{manufacturer: nvidia, uuid: GPU-2, memoryMib: -5}",
            "f.yaml: accelerators[1] (GPU-2): memoryMib -5: write a whole number >= 0",
            id="a negative memory",
        ),
        pytest.param(
            "{manufacturer: nvidia, uuid: GPU-2, memoryMib: lots}",
            'f.yaml: accelerators[1] (GPU-2): memoryMib "lots": write a whole number or null',
            id="a memory that is no number",
        ),
        pytest.param(
            "{manufacturer: nvidia, uuid: GPU-2, computeCapability: 8.6}",
            "f.yaml: accelerators[1] (GPU-2): computeCapability 8.6: write text or null, in quotes",
            id="a number where quoted text belongs",
        ),
        pytest.param(
            "{manufacturer: nvidia, uuid: GPU-2, healthy: perhaps}",
            'f.yaml: accelerators[1] (GPU-2): healthy "perhaps": write true or false',
            id="a health that is neither",
        ),
        pytest.param(
            "{manufacturer: nvidia, uuid: GPU-2, colour: red}",
            'f.yaml: accelerators[1] (GPU-2): colour "red": is no field of this file; correct its name or remove it',
            id="an unknown field",
        ),
        pytest.param(
            "{manufacturer: nvidia}",
            "f.yaml: accelerators[1]: uuid null: is required; add it",
            id="no uuid",
        ),
        pytest.param(
            "{uuid: GPU-2}",
            "f.yaml: accelerators[1] (GPU-2): manufacturer null: is required; add it",
            id="no manufacturer",
        ),
        pytest.param(
            "{manufacturer: acme, uuid: GPU-2}",
            'f.yaml: accelerators[1] (GPU-2): manufacturer "acme": write one of amd, ascend, cambricon, hygon, '
            "iluvatar, metax, mthreads, nvidia, thead",
            id="a manufacturer that nobody knows",
        ),
        pytest.param(
            "{manufacturer: nvidia, uuid: GPU-1}",
            'f.yaml: accelerators[1] (GPU-1): uuid "GPU-1": give each card its own; another card above has this one',
            id="the uuid of another card",
        ),
        pytest.param(
            "a card",
            'f.yaml: accelerators[1]: the whole entry "a card": write a mapping of fields',
            id="no mapping",
        ),
    ],
)
def test_a_broken_card_is_named_and_the_rest_is_used(card: str, message: str) -> None:
    machine = parse(with_cards(GOOD_CARD, card, "{manufacturer: nvidia, uuid: GPU-3}"), file="f.yaml")
    assert [str(broken) for broken in machine.broken] == [message]
    assert [good.uuid for good in machine.accelerators] == ["GPU-1", "GPU-3"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "f.yaml: the whole entry null: write a mapping of fields", id="an empty file"),
        pytest.param("node: [", "f.yaml: is no valid YAML in line 2: ", id="no YAML"),
        pytest.param(MACHINE.replace("4", "-4", 1), "f.yaml: cpu.cores -4: write a whole number >= 1", id="cores"),
        pytest.param(MACHINE.replace("64Gi", "10x"), 'f.yaml: memory "10x": write a quantity', id="memory"),
        pytest.param(MACHINE.replace("64Gi", "-1"), "f.yaml: memory -1: write text, in quotes", id="a bare number"),
        pytest.param(MACHINE.replace("64Gi", "'-1'"), 'f.yaml: memory "-1": write a quantity that is not', id="minus"),
        pytest.param(MACHINE.replace("node: n", ""), "f.yaml: node null: is required; add it", id="no node"),
        pytest.param(MACHINE + "accelerators: 3", "f.yaml: accelerators 3: write a list or null", id="no list"),
        pytest.param(MACHINE + "disk: 1", "f.yaml: disk 1: is no field of this file", id="an unknown field"),
    ],
)
def test_a_broken_file_is_refused(text: str, message: str) -> None:
    with pytest.raises(InventoryError) as refused:
        parse(text, file="f.yaml")
    assert str(refused.value).startswith(message)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InventoryError, match="cannot be read"):
        load(tmp_path / "none.yaml")


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "noise.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InventoryError, match="cannot be read"):
        load(path)
