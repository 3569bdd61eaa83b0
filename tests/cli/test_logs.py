"""What a log line looks like, and what never stands in one."""

from __future__ import annotations

import io
import json
import logging
import re
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import structlog

from plimsoll.kube.types.resources import Key
from plimsoll.runtime.logging import set_up_logging

log = structlog.get_logger()  # made before anything is set up, as every module does


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()


def json_lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_has_time_level_event_and_the_values_in_this_order() -> None:
    stream = io.StringIO()
    set_up_logging("info", "json", stream)
    log.info(
        "evicted", key=Key("Pod", "shop", "cart-1"), attempt=2, took=timedelta(seconds=3), labels={"a": ("b", None)}
    )
    (line,) = json_lines(stream)
    assert list(line)[:3] == ["timestamp", "level", "event"]
    assert datetime.fromisoformat(line.pop("timestamp")).utcoffset() == timedelta()
    assert line == {
        "level": "info",
        "event": "evicted",
        "key": "Pod/shop/cart-1",
        "attempt": 2,
        "took": "0:00:03",
        "labels": {"a": ["b", None]},
    }


def test_the_level_decides_what_is_kept() -> None:
    for level, kept in (("debug", 4), ("info", 3), ("warning", 2), ("error", 1)):
        stream = io.StringIO()
        set_up_logging(level, "json", stream)
        for method in ("debug", "info", "warning", "error"):
            getattr(log, method)("ours")
            getattr(logging.getLogger("aiohttp.client"), method)("theirs")
        assert [line["event"] for line in json_lines(stream)] == ["ours", "theirs"] * kept


def test_libraries_come_out_the_same_way() -> None:
    stream = io.StringIO()
    set_up_logging("info", "json", stream)
    logging.getLogger("aiohttp.client").warning("closed %s", "a connection")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    library, warning = json_lines(stream)
    assert (library["event"], library["level"]) == ("closed a connection", "warning")
    assert library["logger"] == "aiohttp.client"
    assert "DeprecationWarning: old" in warning["event"]


def fail(password: str) -> None:
    raise ValueError(f"cannot go on ({len(password)})")


@pytest.mark.parametrize("logger", [log, logging.getLogger("asyncio")])
def test_an_exception_is_structured_and_shows_no_variables(logger: Any) -> None:
    stream = io.StringIO()
    set_up_logging("info", "json", stream)
    try:
        fail("hunter2-in-a-frame")
    except ValueError:
        logger.exception("failed")
    (line,) = json_lines(stream)
    assert line["exception"][0]["exc_type"] == "ValueError"
    assert line["exception"][0]["exc_value"] == "cannot go on (18)"
    assert [frame["name"] for frame in line["exception"][0]["frames"]][-1] == "fail"
    assert "hunter2" not in stream.getvalue()


def test_a_person_gets_a_line_with_a_plain_traceback_and_no_colours_in_a_file() -> None:
    stream = io.StringIO()
    set_up_logging("info", "console", stream)
    log.info("evicted", key=Key("Pod", "shop", "cart-1"), why="zone a is full")
    try:
        fail("hunter2-in-a-frame")
    except ValueError:
        log.exception("failed")
    first, *rest = stream.getvalue().splitlines()
    assert re.fullmatch(r"\S+Z \[info *\] evicted key=Pod/shop/cart-1 why='zone a is full'", first)
    assert rest[-1] == "ValueError: cannot go on (18)"
    assert "Traceback (most recent call last):" in rest
    assert "\x1b" not in stream.getvalue()
    assert "hunter2-in-a-frame" not in stream.getvalue().replace('fail("hunter2-in-a-frame")', "")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_on_a_terminal_unless_the_user_wants_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    set_up_logging("info", "console", stream)
    log.info("hello")
    assert "\x1b[" in stream.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    set_up_logging("info", "console", stream)
    log.info("hello")
    assert "\x1b[" not in stream.getvalue()


def test_no_value_forges_a_line_or_moves_the_cursor() -> None:
    stream = io.StringIO()
    set_up_logging("info", "console", stream)
    log.info("one\nline", annotation="x\n2026-01-01 [error] forged\x1b[2J", nested=["a\nb"])
    assert len(stream.getvalue().splitlines()) == 1
    assert "\x1b" not in stream.getvalue()


JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJwbGltc29sbCJ9.c2lnbmF0dXJlLWhlcmU"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEsecretsecret\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize("form", ["console", "json"])
@pytest.mark.parametrize(
    ("values", "secret"),
    [
        ({"token": "abc123secret"}, "abc123secret"),
        ({"clientSecret": "abc123secret"}, "abc123secret"),
        ({"client-key-data": "abc123secret"}, "abc123secret"),
        ({"headers": {"Authorization": "abc123secret"}}, "abc123secret"),
        ({"entries": [{"password": "abc123secret"}]}, "abc123secret"),
        ({"error": "401 for Bearer abc123secret"}, "abc123secret"),
        ({"error": ValueError(f"bad token {JWT}")}, JWT),
        ({"url": "https://user:abc123secret@proxy:8080/"}, "abc123secret"),
        ({"text": PEM}, "MIIEsecretsecret"),
        ({"text": PEM[:40]}, "MIIEsecr"),
    ],
)
def test_secrets_are_hidden_by_name_and_by_look(form: Any, values: dict[str, Any], secret: str) -> None:
    stream = io.StringIO()
    set_up_logging("info", form, stream)
    log.info("asked", **values, resource="pods")
    assert "[hidden]" in stream.getvalue()
    assert secret not in stream.getvalue()
    assert "pods" in stream.getvalue()
    if form == "json":
        assert len(json_lines(stream)) == 1


def refuse(token: str) -> None:
    raise ValueError(f"refused: Bearer {token}")


@pytest.mark.parametrize("form", ["console", "json"])
def test_secrets_in_an_error_or_in_what_a_library_logs_are_hidden(form: Any) -> None:
    stream = io.StringIO()
    set_up_logging("info", form, stream)
    try:
        refuse(token="abc123secret")
    except ValueError:
        log.exception("failed")
    logging.getLogger("aiohttp.client").warning("sent Authorization: Basic %s", "abc123secret")
    assert "abc123secret" not in stream.getvalue().replace('refuse(token="abc123secret")', "")
    assert stream.getvalue().count("[hidden]") == 2


def test_names_of_secrets_and_counts_of_tokens_are_no_secrets() -> None:
    stream = io.StringIO()
    set_up_logging("info", "json", stream)
    log.info("read", secret_name="provider", tokens=5, key="Pod/a/b", at=datetime(2026, 1, 1, tzinfo=UTC))
    (line,) = json_lines(stream)
    assert line["secret_name"] == "provider"
    assert line["tokens"] == 5
    assert line["key"] == "Pod/a/b"


def test_setting_up_again_replaces_what_was_set_up_before() -> None:
    first, second = io.StringIO(), io.StringIO()
    set_up_logging("info", "json", first)
    set_up_logging("info", "json", second)
    log.info("ours")
    logging.getLogger("x").info("theirs")
    assert first.getvalue() == ""
    assert len(json_lines(second)) == 2
