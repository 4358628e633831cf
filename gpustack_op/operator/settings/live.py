"""The settings in force, at this moment.

Guarantees   `current` follows the Secret and the Setting objects as the caches see them, without a restart and before
             anything is written back; what cannot be read is the last good value, else the built-in default. A
             subscriber hears of every change of a value, after `current` shows it, and of nothing else.
Assumptions  The caches have synced before anybody decides on a value: until then it may be a default.
Recovery     None is needed: the value is made anew from the caches at every change of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpustack_op.api.core import Secret
from gpustack_op.api.worker import Setting
from gpustack_op.operator.settings.catalog import DEFAULTS
from gpustack_op.operator.settings.sources import Sources
from gpustack_op.operator.settings.values import Settings
from gpustack_op.runtime.cache import Change
from gpustack_op.runtime.logging import logger

Subscriber = Callable[[frozenset[str]], None]
"""Called with the names of the settings that changed. Quick, and does not wait."""

log = logger("settings")


class LiveSettings:
    """seeds  what a setting is while it is stored nowhere, by name; default the built-in defaults."""

    def __init__(self, sources: Sources, *, seeds: Mapping[str, str] = DEFAULTS) -> None:
        self._sources = sources
        self._seeds = seeds
        self._subscribers: list[Subscriber] = []
        self._current = Settings.of(seeds)
        sources.secrets.add_handler(self._read)
        sources.settings.add_handler(self._read)

    @property
    def current(self) -> Settings:
        return self._current

    @property
    def synced(self) -> bool:
        """Whether the Secret, and the Settings where these are served, have been read."""
        return all(one.synced or one.missing for one in (self._sources.secrets, self._sources.settings))

    def subscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.append(subscriber)

    def _read(self, _change: Change[Secret] | Change[Setting]) -> None:
        verdicts = self._sources.verdicts(self._seeds)
        before, self._current = self._current, Settings.of({name: one.value for name, one in verdicts.items()})
        changed = self._current.changed(before)
        if not changed:
            return
        if self.synced:
            log.info("settings.changed", changed={name: verdicts[name].value for name in sorted(changed)})
        for subscriber in self._subscribers:
            self._tell(subscriber, changed)

    def _tell(self, subscriber: Subscriber, changed: frozenset[str]) -> None:
        try:
            subscriber(changed)
        except Exception:
            log.exception("settings.subscriber_failed", changed=sorted(changed))
