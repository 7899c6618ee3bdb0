"""The log of the service: one JSON object per line on stderr, from the standard library and from structlog."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

import orjson
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

# --- What is bound ----------------------------------------------------------------------------------------------------
# What all lines of one request, stream or try of a tail say beside their own. One dict, which is changed in place: a
# context variable for each field costs ten times as much.
_bound: ContextVar[dict[str, Any]] = ContextVar("what all lines of this request say")


def begin(**fields: Any) -> None:
    """Forget what this thread has bound, and bind these fields."""
    _bound.set(fields)


def bind(**fields: Any) -> None:
    """Have every line of this thread say these fields too, until the next `begin`."""
    bound().update(fields)


def bound() -> dict[str, Any]:
    """Return what is bound, itself and no copy."""
    try:
        return _bound.get()
    except LookupError:
        fields: dict[str, Any] = {}
        _bound.set(fields)
        return fields


def merge_bound(_logger: WrappedLogger, _method: str, line: EventDict) -> EventDict:
    """Add what is bound to a line (a processor of structlog)."""
    return {**bound(), **line}


# --- Lines ------------------------------------------------------------------------------------------------------------
_SHARED: list[Processor] = [
    merge_bound,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]

STRUCTLOG_PROCESSORS: list[Processor] = [
    structlog.stdlib.filter_by_level,
    *_SHARED,
    structlog.stdlib.PositionalArgumentsFormatter(),
    structlog.processors.StackInfoRenderer(),
    structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
]

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "json": {
            "()": structlog.stdlib.ProcessorFormatter,
            "foreign_pre_chain": _SHARED,
            "processors": [
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                # Tracebacks without local variables, which could contain row values or an access token.
                structlog.processors.ExceptionRenderer(
                    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
                ),
                structlog.processors.JSONRenderer(),
            ],
        }
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {
        # Django's own request lines repeat ours and quote the query string.
        "django.request": {"level": "CRITICAL"},
        "django.server": {"level": "CRITICAL"},
        # django-axes tells each step of a login; of a refused one `endpoints.access.logins` has a line.
        "axes": {"level": "ERROR"},
        # psycopg logs every pipeline that a failed statement ended; we log the failure itself.
        "psycopg": {"level": "ERROR"},
        # Its warnings quote what strangers send as tracestate.
        "opentelemetry.trace.span": {"level": "ERROR"},
    },
}


def write_line(logger: str, event: str, level: str, fields: Mapping[str, Any]) -> None:
    """Write a line as `structlog` does, with what is bound, at a fifth of the cost: for the line of every request.

    One system call a line, so that lines of several threads and processes never mix.
    """
    line = {**fields, "event": event, **bound(), "logger": logger, "level": level, "timestamp": datetime.now(UTC)}
    # If the log cannot be written (disk full, reader gone), the logged call must not fail.
    with suppress(OSError):
        os.write(2, orjson.dumps(line, option=orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE))
