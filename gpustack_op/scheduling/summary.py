"""The cells that `kubectl get instancetypes` prints, each one text, since a column shows one field."""

from __future__ import annotations

from gpustack_op.api.worker import InstanceTypeSpec, Text, UnitResources
from gpustack_op.scheduling.pool_views import PoolViews, amount_text
from gpustack_op.scheduling.views import View


def summary(spec: InstanceTypeSpec, views: PoolViews) -> dict[str, str]:
    """An InstanceType's `status.summary`."""
    accelerators = (views.exclusive, views.shared, views.sliced, views.partitioned.view)
    unit = spec.unit_resources or UnitResources()
    cells = {
        "unit": "/".join(map(_text, (unit.cpu, unit.ram, spec.local_storage))),
        "accelerator": " ".join(map(_cell, accelerators)),
        "cpu": _cell(views.cpu),
        "partitions": " ".join(f"{name}:{count}" for name, count in views.partitioned.remaining),
    }
    return {name: cell for name, cell in cells.items() if cell}


def _cell(view: View) -> str:
    """Largest single request and what is free, for example `48/72`."""
    return f"{amount_text(view.once)}/{amount_text(view.remaining)}"


def _text(value: Text | None) -> str:
    return "" if value is None else str(value)
