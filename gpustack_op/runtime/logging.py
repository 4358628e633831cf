"""Structured logs: one event a line, facts as fields.

Guarantees   Every line written while a key is reconciled carries `reconcile_id`, `controller`, `namespace` and
             `name`. No secret value is printed: fields that sound like one, bearer tokens in texts, bytes and whole
             objects are replaced before rendering. At `info` a settled program writes nothing.
Assumptions  Events are short, lower case and dotted (`pool.drained`); what varies is a field, never part of the
             event. Credentials are not written into free text other than as a bearer token.
Recovery     Lines of other libraries come out in the same form, from level warning up. A field that cannot be
             rendered is rendered by its `repr`.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from contextvars import ContextVar
from typing import Any, Literal, Protocol, TextIO, cast

import orjson
import structlog
from structlog.typing import FilteringBoundLogger, Processor

from gpustack_op.api.meta import KubeObject

Format = Literal["json", "console"]
Event = MutableMapping[str, Any]

HIDDEN = "<hidden>"
_SECRET_FIELD = re.compile(
    r"passw|secret|token|credential|authorization|api_?key|private_?key|client_?key|kubeconfig", re.I
)
_HARMLESS_FIELD = re.compile(r"(_name|_namespace|_file|_path|_count|_seconds)$")
_BEARER = re.compile(r"(?i)(bearer|basic)\s+[a-z0-9._~+/=-]{8,}")


class LogFields(Protocol):
    """What is going on in the present task. Rendered only when a line is written."""

    def log_fields(self) -> Mapping[str, object]: ...


current: ContextVar[LogFields | None] = ContextVar("current", default=None)


def logger(name: str) -> FilteringBoundLogger:
    """A logger whose lines carry `component=name`. Cheap, and usable before `configure`."""
    return cast(FilteringBoundLogger, structlog.get_logger(component=name))


def configure(format: Format = "json", level: str = "info", stream: TextIO | None = None) -> None:
    """Call once, first thing in a program. `stream` is stderr unless given."""
    out = stream or sys.stderr
    number = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[*_shared(), _renderer(format)],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=out),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _renderer(format)],
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *_shared()],
        )
    )
    logging.basicConfig(level=max(number, logging.WARNING), handlers=[handler], force=True)


def add_current_fields(_logger: object, _method: str, event: Event) -> Event:
    fields = current.get()
    if fields is not None:
        for key, value in fields.log_fields().items():
            event.setdefault(key, value)
    return event


def hide_secrets(_logger: object, _method: str, event: Event) -> Event:
    """Runs late, so that nothing another processor adds escapes it."""
    for key, value in event.items():
        event[key] = _harmless(key, value)
    return event


def _harmless(key: str, value: object) -> object:
    if isinstance(value, str):
        return HIDDEN if _is_secret(key) and value else _BEARER.sub(rf"\1 {HIDDEN}", value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if _is_secret(key):
        return HIDDEN
    return _harmless_whole(key, value)


def _harmless_whole(key: str, value: object) -> object:
    if isinstance(value, KubeObject):
        return f"{value.namespace}/{value.name}" if value.namespace else value.name
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    if isinstance(value, Mapping):
        return {str(inner): _harmless(str(inner), item) for inner, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_harmless(key, item) for item in value]
    return value


def _is_secret(key: str) -> bool:
    return bool(_SECRET_FIELD.search(key)) and not _HARMLESS_FIELD.search(key)


def _shared() -> list[Processor]:
    return [
        add_current_fields,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        hide_secrets,
    ]


def _renderer(format: Format) -> Processor:
    if format == "console":
        return structlog.dev.ConsoleRenderer(colors=False)
    return structlog.processors.JSONRenderer(serializer=_json)


def _json(event: object, default: object = None, **_options: object) -> str:
    return orjson.dumps(event, default=repr, option=orjson.OPT_NON_STR_KEYS).decode()
