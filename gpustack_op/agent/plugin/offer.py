"""One resource that is registered with the kubelet: a manufacturer's cards in one family."""

from __future__ import annotations

from dataclasses import dataclass

from gpustack_op.scheduling.manufacturers import Family, Manufacturer


@dataclass(frozen=True, slots=True)
class Offer:
    row: Manufacturer
    family: Family

    @property
    def resource(self) -> str:
        """Empty for a family that the manufacturer does not have."""
        return {
            Family.EXCLUSIVE: self.row.base_resource,
            Family.SHARED: self.row.shared,
            Family.SLICED: self.row.sliced,
            Family.PARTITIONED: self.row.partitioned,
            Family.VISIBILITY: self.row.visibility,
        }.get(self.family, "")
