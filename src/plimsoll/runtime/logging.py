"""Logging: text for terminals or one JSON object per line, on standard error, without secrets.

Records of libraries that use the standard library's logging pass through here, too, so all lines have the same format. The
complete record of writes is the audit trail (`audit.py`), not the log.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Mapping
from typing import Any, Literal, TextIO

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

_HIDDEN = "[hidden]"
_SECRET_NAME = re.compile(
    r"(token|secret|passwo?rd|passphrase|authorization|credentials?|cookie|(private|client)[-_]?key)([-_]?data)?$",
    re.IGNORECASE,
)
# Patterns of secrets in text: a header, a JSON web token, a PEM block, a password in a URL.
_SECRET_TEXT = re.compile(
    r"(?P<scheme>\b(?:Bearer|Basic)\s+)[\w.~+/=-]{8,}"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+"
    r"|-----BEGIN[ A-Z]*PRIVATE KEY-----.*?(?:-----END[ A-Z]*PRIVATE KEY-----|$)"
    r"|(?P<login>://[^\s/:@]+:)[^\s/@]+(?=@)",
    re.DOTALL,
)


def set_up_logging(level: str, form: Literal["console", "json"], stream: TextIO | None = None) -> None:
    """Send every record of this process, including those of libraries, to the stream (default: standard error)."""
    stream = stream or sys.stderr
    least = logging.getLevelNamesMapping()[level.upper()]
    gather: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _plain_values,
    ]
    render = _for_machines() if form == "json" else _for_people(stream)
    structlog.configure(
        processors=[*gather, *render],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=structlog.WriteLoggerFactory(stream),
        # Loggers are created when a module is imported, long before the settings are known.
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *gather],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(least)
    logging.captureWarnings(capture=True)


def _for_people(stream: TextIO) -> list[Processor]:
    # Not the rich traceback: it shows local variables, and one of those may be a token.
    console = structlog.dev.ConsoleRenderer(
        colors=stream.isatty() and not os.environ.get("NO_COLOR"),
        sort_keys=False,
        exception_formatter=structlog.dev.plain_traceback,
        pad_event_to=0,
    )
    return [_printable_values, console, _hide_in_line]


def _for_machines() -> list[Processor]:
    stacks = structlog.tracebacks.ExceptionDictTransformer(show_locals=False, use_rich=False)
    return [structlog.processors.ExceptionRenderer(stacks), _json_line]


def _plain_values(_: WrappedLogger, __: str, record: EventDict) -> EventDict:
    for name, value in record.items():
        if name != "exc_info" and not name.startswith("_"):  # structlog's own keys, which later processors remove
            record[name] = _plain(value, name)
    return record


def _plain(value: Any, name: str = "") -> Any:
    """A value as JSON can hold it, with secrets hidden by name or by pattern."""
    if _SECRET_NAME.search(name):
        return _HIDDEN
    if isinstance(value, str):
        return _hide(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item, str(key)) for key, item in value.items()}
    if type(value) in (list, tuple, set, frozenset):  # not subclasses: a named tuple has its own text
        return [_plain(item) for item in value]
    return _hide(str(value))


def _hide(text: str) -> str:
    return _SECRET_TEXT.sub(lambda found: (found["scheme"] or found["login"] or "") + _HIDDEN, text)


def _printable_values(_: WrappedLogger, __: str, record: EventDict) -> EventDict:
    """Escape control characters: an annotation's value is untrusted and must not forge a line or move the cursor."""
    for name, value in record.items():
        if isinstance(value, str) and not value.isprintable():
            record[name] = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in value)
    return record


def _hide_in_line(_: WrappedLogger, __: str, line: Any) -> str:
    """Hide secrets in the finished line, which now contains the traceback."""
    return _hide(line)


def _json_line(_: WrappedLogger, __: str, record: EventDict) -> str:
    if "exception" in record:
        record["exception"] = _plain(record["exception"])
    ordered = {name: record.pop(name) for name in ("timestamp", "level", "event") if name in record}
    return msgspec.json.encode({**ordered, **record}, enc_hook=str).decode()
