"""Machines for the stand-in: products with their drivers' readings, and what may happen to them while they run."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Facts = dict[str, Any]

NOT_SUPPORTED, NO_PERMISSION, NOT_LOADED, LOST, MISMATCH, UNKNOWN = 3, 4, 9, 15, 18, 999

A10G: Facts = {
    "name": "NVIDIA A10G",
    "memory": 23028,
    "busWidth": 384,
    "ecc": 1,
    "eccErrors": 0,
    "cores": 10240,
    "computeCapability": "8.6",
}
T4: Facts = {
    "name": "Tesla T4",
    "memory": 15360,
    "busWidth": 256,
    "ecc": 1,
    "eccErrors": 0,
    "cores": 2560,
    "computeCapability": "7.5",
}

A100_40_PROFILES = (
    "1g.5gb|19|1|4864|7|1|0,1,2,3,4,5,6",
    "2g.10gb|14|2|9856|3|2|0,2,4",
    "3g.20gb|9|3|19968|2|4|0,4",
    "4g.20gb|5|4|19968|1|4|0",
    "7g.40gb|0|7|40192|1|8|0",
    "",
    "",
    "1g.5gb+me|20|1|4864|1|1|0,1,2,3,4,5,6",
    "",
    "1g.10gb|15|1|9856|4|2|0,2,4,6",
)
"""By the number under which the driver is asked; empty for the numbers it does not know."""

H100_PROFILES = (
    "1g.10gb|19|1|9856|7|1|0,1,2,3,4,5,6",
    "2g.20gb|14|2|19968|3|2|0,2,4",
    "3g.40gb|9|3|40448|2|4|0,4",
    "4g.40gb|5|4|39936|1|4|0",
    "7g.80gb|0|7|81152|1|8|0",
    "",
    "",
    "1g.10gb+me|20|1|9856|1|1|0,1,2,3,4,5,6",
    "",
    "1g.20gb|15|1|19968|4|2|0,2,4,6",
    "1g.10gb+gfx|21|1|9856|7|1|0,1,2,3,4,5,6",
)

A100_40: Facts = {
    "name": "NVIDIA A100-SXM4-40GB",
    "memory": 40960,
    "busWidth": 5120,
    "ecc": 1,
    "eccErrors": 0,
    "cores": 6912,
    "computeCapability": "8.0",
    "mig": 0,
    "profiles": A100_40_PROFILES,
}
A100_80: Facts = {
    **A100_40,
    "name": "NVIDIA A100-SXM4-80GB",
    "memory": 81920,
    "profiles": tuple(line.replace("+gfx", "") for line in H100_PROFILES[:10]),
}
H100: Facts = {
    "name": "NVIDIA H100 80GB HBM3",
    "memory": 81559,
    "busWidth": 5120,
    "ecc": 1,
    "eccErrors": 0,
    "cores": 16896,
    "computeCapability": "9.0",
    "mig": 0,
    "profiles": H100_PROFILES,
}


@dataclass
class MockMachine:
    """What the library answers in this process and in all that get `environment`. Each change counts at once."""

    folder: Path
    facts: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.set(driver="580.159.03", library="580.159.03", cuda=13000)

    @property
    def environment(self) -> dict[str, str]:
        return {"GPUSTACK_MOCK_NVML": str(self.folder)}

    def set(self, **facts: Any) -> None:
        self._change(facts)

    def cards(self, *cards: Facts) -> list[str]:
        """Exactly these, in this order; their ids."""
        self.facts = {key: value for key, value in self.facts.items() if not key.startswith("device.")}
        for number, facts in enumerate(cards):
            address = f"00000000:{number + 1:02X}:00.0"
            self.card(number, {"uuid": f"GPU-{number}", "minor": number, "pci": address, **facts})
        return [self.facts[f"device.{number}.uuid"] for number in range(len(cards))]

    def card(self, number: int, facts: Facts) -> None:
        """Change some readings of one card; None takes a reading away."""
        flat = {f"profile.{place}": line or None for place, line in enumerate(facts.get("profiles", ()))}
        flat |= {key: value for key, value in facts.items() if key != "profiles"}
        self._change({f"device.{number}.{key}": value for key, value in flat.items()})

    def fails(self, function: str, code: int | None, *, card: int | None = None) -> None:
        """The library's function returns this code from now on; None ends that."""
        self._change({f"{_of(card)}error.{function}": code})

    def hangs(self, function: str, seconds: int | None, *, card: int | None = None) -> None:
        self._change({f"{_of(card)}hang.{function}": seconds})

    def loses(self, card: int) -> None:
        self._change({f"device.{card}.lost": 1})

    def finds(self, card: int) -> None:
        self._change({f"device.{card}.lost": None})

    def xid(self, card: int, number: int) -> None:
        """One more has happened."""
        so_far = self.facts.get(f"device.{card}.xids", "")
        self._change({f"device.{card}.xids": f"{so_far},{number}" if so_far else number})

    def reloads_driver(self, version: str) -> None:
        self._change({"driver": version, "library": version, "generation": version, "down": None})

    def reboots(self) -> None:
        """No partition survives."""
        self._instances.unlink(missing_ok=True)

    def instances(self) -> list[str]:
        """The lines of all instances there are."""
        return sorted(self._instances.read_text().splitlines()) if self._instances.exists() else []

    def carve(self, uuid: str, number: int, profile: int, start: int, size: int, *, parts: int = 1) -> None:
        """A GPU instance made by hand, with so many compute instances."""
        lines = [f"{uuid} {number} -1 {profile} {start} {size} -"]
        lines += [f"{uuid} {number} {part} 0 {start} {size} MIG-hand-{number}-{part}" for part in range(parts)]
        with self._instances.open("a") as file:
            file.write("".join(f"{line}\n" for line in lines))

    @property
    def _instances(self) -> Path:
        return self.folder / "instances"

    def _change(self, facts: Facts) -> None:
        for key, value in facts.items():
            if value is None:
                self.facts.pop(key, None)
            else:
                self.facts[key] = str(value)
        aside = self.folder / "machine.new"
        aside.write_text(json.dumps(self.facts))
        aside.rename(self.folder / "machine.json")


def _of(card: int | None) -> str:
    return "" if card is None else f"device.{card}."
