"""The Setting webhook: a bad value is refused where it is written, so that it never has to be reported later.

Guarantees   A value that is not changed is not judged, so that an object with a bad one can still be labelled, and the
             operator can write beside it. Any Setting may be deleted: the operator makes it anew.
"""

from __future__ import annotations

from typing import Any

from gpustack_op.operator.settings.catalog import CATALOG, unknown
from gpustack_op.runtime.webhook.field_errors import forbidden, invalid, judged
from gpustack_op.runtime.webhook.review import AdmissionRequest, Cause, Verdict


class SettingWebhook:
    """`namespace` is the operator's own, where the settings are."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace

    async def validate(self, request: AdmissionRequest) -> Verdict:
        name = request.name or ((request.object or {}).get("metadata") or {}).get("name") or ""
        value = _value(request.object)
        if request.old_object is not None and value == _value(request.old_object):
            return judged(request.kind, name, [])
        return judged(request.kind, name, setting_causes(name, request.namespace, value, namespace=self.namespace))


def setting_causes(name: str, within: str, value: Any, *, namespace: str) -> list[Cause]:
    """What speaks against a Setting of this name and value in namespace `within`."""
    if within != namespace:
        return [forbidden("metadata.namespace", f'settings have an effect in namespace "{namespace}" only')]
    if name not in CATALOG:
        return [invalid("metadata.name", name, unknown(name))]
    refusal = CATALOG[name].refusal(value) if isinstance(value, str) else None
    return [Cause("spec.value", f"Invalid value: {refusal}", "FieldValueInvalid")] if refusal else []


def _value(setting: dict[str, Any] | None) -> Any:
    return ((setting or {}).get("spec") or {}).get("value")
