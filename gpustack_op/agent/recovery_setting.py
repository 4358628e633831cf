"""The one setting an agent follows: how long a sick card must stay healthy before it is given out again.

Promises  A value that is missing or cannot be read means the default; the operator tells its author why.
"""

from __future__ import annotations

import re
from typing import Final

from gpustack_op.api.worker import Setting

RECOVERY_SETTING: Final = "accelerator-recovery-period"

DEFAULT_RECOVERY: Final = 60.0
"""Seconds: longer than a driver's reset, shorter than anybody's patience."""

_DURATION: Final = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|[smhd]))+|[0-9]+(?:\.[0-9]+)?")
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|[smhd]?)")
_SECONDS: Final = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def recovery_period(setting: Setting | None) -> float:
    """Seconds, from the last good value: a duration such as `90s` or `1m30s`, or a plain number of seconds."""
    text = (setting.status.value or "").strip() if setting else ""
    if not _DURATION.fullmatch(text):
        return DEFAULT_RECOVERY
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
