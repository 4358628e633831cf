from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from gpustack_op.api.core import Secret
from gpustack_op.api.meta import ObjectMeta
from gpustack_op.runtime.logging import configure, hide_secrets, logger

SECRET = Secret(metadata=ObjectMeta(name="s", namespace="ns"), data={"key": "c2VjcmV0"})


@pytest.fixture(autouse=True)
def untouched() -> Iterator[None]:
    """Leaves logging as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [
        pytest.param("password", "hunter2", "<hidden>", id="a password"),
        pytest.param("api_key", "abc", "<hidden>", id="an API key"),
        pytest.param("token", {"a": "b"}, "<hidden>", id="whatever a token is made of"),
        pytest.param("headers", {"Authorization": "Bearer abcdefgh12345"}, {"Authorization": "<hidden>"}, id="nested"),
        pytest.param("error", "401: Bearer abc.def-ghi_jkl refused", "401: Bearer <hidden> refused", id="in a text"),
        pytest.param("body", b"whole request", "<13 bytes>", id="bytes are only counted"),
        pytest.param("object", SECRET, "ns/s", id="an object is only named"),
        pytest.param("objects", [SECRET], ["ns/s"], id="objects in a list"),
        pytest.param("secret_name", "gpustack-settings", "gpustack-settings", id="a Secret's name is none"),
        pytest.param("token_file", "/var/run/token", "/var/run/token", id="nor is a path"),
        pytest.param("token_count", 3, 3, id="nor is a number"),
        pytest.param("pool", "a10g", "a10g", id="ordinary facts"),
    ],
)
def test_secret_values_are_never_printed(field: str, value: object, shown: object) -> None:
    assert hide_secrets(None, "info", {"event": "x", field: value}) == {"event": "x", field: shown}


def test_a_line_is_one_event_with_facts_as_fields() -> None:
    out = io.StringIO()
    configure("json", "info", out)
    logger("queue").info("pool.drained", pool="a10g", instances=3)
    (line,) = lines(out)
    assert (line["event"], line["component"], line["level"], line["pool"], line["instances"]) == (
        "pool.drained",
        "queue",
        "info",
        "a10g",
        3,
    )
    assert line["timestamp"].endswith("Z")


def test_what_is_below_the_level_is_not_written() -> None:
    out = io.StringIO()
    configure("json", "info", out)
    logger("queue").debug("pool.looked_at")
    assert out.getvalue() == ""


def test_an_exception_comes_with_its_traceback() -> None:
    out = io.StringIO()
    configure("json", "info", out)
    logger("queue").error("reconcile.failing", exc_info=ValueError("bad token: Bearer abcdefgh12345"))
    (line,) = lines(out)
    assert line["exception"].endswith("ValueError: bad token: Bearer <hidden>")


def test_what_cannot_be_rendered_is_shown_by_its_repr() -> None:
    out = io.StringIO()
    configure("json", "info", out)
    logger("queue").info("x", kind=int)
    assert lines(out)[0]["kind"] == "<class 'int'>"


def test_other_libraries_speak_the_same_form_from_warning_up() -> None:
    out = io.StringIO()
    configure("json", "debug", out)
    logging.getLogger("aiohttp").info("chatter")
    logging.getLogger("aiohttp").warning("unclosed %s", "session")
    (line,) = lines(out)
    assert (line["event"], line["logger"], line["level"]) == ("unclosed session", "aiohttp", "warning")


def test_the_console_form_is_for_people() -> None:
    out = io.StringIO()
    configure("console", "info", out)
    logger("queue").info("pool.drained", pool="a10g")
    assert "pool.drained" in out.getvalue()
    assert "pool=a10g" in out.getvalue()


def test_a_logger_made_before_the_configuration_follows_it() -> None:
    early = logger("early")
    out = io.StringIO()
    configure("json", "warning", out)
    early.info("quiet")
    early.warning("loud")
    assert [line["event"] for line in lines(out)] == ["loud"]
