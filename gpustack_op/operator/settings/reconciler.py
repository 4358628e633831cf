"""Keeps the Secret `gpustack-settings` and the Setting objects in step.

Owns      that Secret's keys that are settings, and every Setting of the operator's namespace.
Never     touches the Secret's other keys: it reports them. Never overwrites a stored text that cannot be read, but for
          a person's edit of the Setting.
Woken by  the Secret and the Settings of the operator's namespace.
Promises  a change in either place is in the other one a moment later. A deleted Setting and a missing key come back. A
          crash between any two writes is made good by the next pass, without taking an edit for something else: what
          an edit replaces goes first into the Secret; what comes from the Secret is marked in the Setting until its
          status has followed. A settled cluster sees no write.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpustack_op.api.core import SECRETS, Secret
from gpustack_op.api.worker import SETTINGS, Setting
from gpustack_op.operator.settings.catalog import CATALOG, DEFAULTS, Declaration, unknown
from gpustack_op.operator.settings.sources import COPIED, Sources, encoded
from gpustack_op.operator.settings.verdict import Verdict
from gpustack_op.runtime.apply import Writer
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.controller import DONE, Controller, Request, Result, mapped
from gpustack_op.runtime.events import Recorder
from gpustack_op.scheduling.names import SETTINGS_SECRET


class SettingsReconciler:
    name = "settings"

    def __init__(
        self,
        sources: Sources,
        client: Client,
        writer: Writer,
        recorder: Recorder,
        *,
        seeds: Mapping[str, str] = DEFAULTS,
    ) -> None:
        self.sources = sources
        self.client = client
        self.writer = writer
        self.recorder = recorder
        self.seeds = seeds
        self.only = Request(SETTINGS_SECRET, sources.namespace)
        self._reported: frozenset[str] = frozenset()

    async def reconcile(self, request: Request) -> Result:
        secret = self.sources.secret()
        if secret is not None and secret.deleting:
            return DONE  # its end wakes us again
        verdicts = self.sources.verdicts(self.seeds)
        if secret is not None:
            self._report_strangers(secret)
        await self._keep_secret(secret, verdicts)
        for name, verdict in verdicts.items():
            await self._keep_setting(CATALOG[name], verdict)
        for setting in self.sources.settings.all(self.sources.namespace):
            if setting.name not in CATALOG:
                await self._keep_status(setting, {"message": unknown(setting.name) + " Delete this object."})
        return DONE

    async def _keep_secret(self, secret: Secret | None, verdicts: Mapping[str, Verdict]) -> None:
        data = {name: encoded(one.store) for name, one in verdicts.items() if one.store is not None}
        if secret is None:
            await self._create(SECRETS, {"metadata": {"name": SETTINGS_SECRET}, "type": "Opaque", "data": data})
        elif data:
            await self._patch(SECRETS, secret, {"data": data})

    async def _keep_setting(self, declared: Declaration, verdict: Verdict) -> None:
        setting = self.sources.setting(declared.name)
        metadata: dict[str, Any] = {"annotations": {COPIED: verdict.spec}}
        spec = {"value": verdict.spec}
        if setting is None:
            named = {"name": declared.name, **metadata}
            setting = await self._create(SETTINGS, {"metadata": named, "spec": spec})
        elif setting.deleting:
            return
        elif setting.spec.value != verdict.spec:
            setting = await self._patch(SETTINGS, setting, {"metadata": metadata, "spec": spec})
        setting = await self._keep_status(setting, wanted_status(declared, verdict))
        if COPIED in setting.annotations:
            await self._patch(SETTINGS, setting, {"metadata": {"annotations": {COPIED: None}}})

    async def _keep_status(self, setting: Setting, status: Mapping[str, str | None]) -> Setting:
        message = status["message"]
        if message is not None and message != setting.status.message:
            self._complain(setting, message)
        return await self.writer.converge_status(SETTINGS, status, setting) or setting

    def _complain(self, setting: Setting, message: str) -> None:
        note = f'Setting "{setting.namespace}/{setting.name}": {message}'
        self.recorder.event(setting, "Warning", "SettingRefused", note, action="ReadSetting", resource=SETTINGS)

    def _report_strangers(self, secret: Secret) -> None:
        """Says once of each key that it means nothing; it may be a misspelt setting."""
        strangers = frozenset(secret.data or ()) - set(CATALOG)
        for name in sorted(strangers - self._reported):
            note = f'Secret "{secret.namespace}/{secret.name}": {unknown(name)}'
            self.recorder.event(secret, "Warning", "UnknownSetting", note, action="ReadSetting", resource=SECRETS)
        self._reported = strangers

    async def _create(self, resource: Any, body: dict[str, Any]) -> Any:
        return await self.client.create(
            resource, body, namespace=self.sources.namespace, field_manager=self.writer.field_manager
        )

    async def _patch(self, resource: Any, present: Secret | Setting, patch: dict[str, Any]) -> Any:
        """Bound to the state that was judged: whoever wrote meanwhile makes this a conflict, and we judge again."""
        metadata = {**patch.get("metadata", {}), "resourceVersion": present.metadata.resource_version}
        return await self.client.merge_patch(
            resource,
            present.name,
            {**patch, "metadata": metadata},
            namespace=present.namespace,
            field_manager=self.writer.field_manager,
        )


def wanted_status(declared: Declaration, verdict: Verdict) -> dict[str, str | None]:
    return {
        "value": verdict.value,
        "default": declared.default,
        "type": declared.type.name,
        "description": declared.description,
        "message": verdict.message or None,
    }


def settings_controller(reconciler: SettingsReconciler) -> Controller:
    """Wakes once by itself, since a Secret that is missing sends no event."""

    def only(_: object) -> list[Request]:
        return [reconciler.only]

    sources = reconciler.sources
    controller = Controller(reconciler, [mapped(sources.secrets, only), mapped(sources.settings, only)])
    controller.enqueue(reconciler.only)
    return controller
