"""Setting: one knob of the operator, to be read and turned with kubectl."""

from __future__ import annotations

from gpustack_op.api.model import Column, CustomResource, Definition, Model
from gpustack_op.api.worker import SETTINGS


class SettingSpec(Model):
    """The value wanted."""

    value: str | None = None
    """Value wanted, as text: see status.type for what is accepted. It takes effect at once."""


class SettingStatus(Model):
    """The value in force, and what the setting means. Written by the operator."""

    value: str | None = None
    """Value in force: the last good one."""

    default: str | None = None
    """Value when nothing is set."""

    type: str | None = None
    """What values look like, such as bool, duration, text or a choice."""

    description: str | None = None
    """What the setting does."""

    message: str | None = None
    """Why the stored value is not in force, when it is not."""


class Setting(CustomResource):
    """A setting of the operator. The names are fixed; the values are stored in the Secret gpustack-settings of the same
    namespace, and either may be edited."""

    spec: SettingSpec | None = None
    status: SettingStatus | None = None


DEFINITION = Definition(
    resource=SETTINGS,
    model=Setting,
    short_names=("set",),
    columns=(
        Column("Value", ".status.value", "Value in force."),
        Column("Default", ".status.default", "Value when nothing is set."),
        Column("Message", ".status.message", "Why the stored value is not in force."),
        Column("Type", ".status.type", "What values look like.", priority=1),
        Column("Description", ".status.description", "What the setting does.", priority=1),
    ),
)
