"""A caller's trace (W3C Trace Context): read strictly, in every log line of its request, and with its statements.

What a caller sends is never trusted for more than its form: an invalid header counts as none. Spans are a matter of
`config.spans`, which puts itself in here as `statement` when it is switched on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import Any, Final

from config import logs

HEADER: Final = "HTTP_TRACEPARENT"  # as WSGI names it, PEP 3333
# version-trace-parent-flags, in lower case; later versions may have more after another dash (level 2, sections 3.2 and
# 4.3). Sent twice, it arrives joined by a comma, which is no traceparent.
_TRACEPARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_THIS_VERSION: Final = "00"
_FORBIDDEN_VERSION: Final = "ff"

trace_id_of_request: Final[ContextVar[str]] = ContextVar("trace_id_of_request", default="")


@dataclass(frozen=True, slots=True)
class TraceParent:
    """Where a request belongs: 32 hexadecimal digits of its trace, 16 of the span that made it."""

    trace_id: str
    span_id: str


# Makes a span of a statement on this connection; set once, before a process answers its first request.
statement: Callable[[Any], AbstractContextManager[None]] | None = None


def read_traceparent(header: str) -> TraceParent | None:
    """Return what a traceparent says, None if it is not valid (W3C Trace Context level 2, section 3.2)."""
    match = _TRACEPARENT.fullmatch(header.strip(" \t"))
    if match is None:
        return None
    version, trace_id, span_id, _, rest = match.groups()
    if version == _FORBIDDEN_VERSION or (version == _THIS_VERSION and rest is not None):
        return None
    if not trace_id.strip("0") or not span_id.strip("0"):
        return None
    return TraceParent(trace_id, span_id)


def follow(environ: Mapping[str, Any]) -> Token[str] | None:
    """Bind the ids of the request's trace for log lines and statements, until `leave`; None without a valid header."""
    parent = read_traceparent(environ[HEADER])
    if parent is None:
        return None
    logs.bind(trace_id=parent.trace_id, span_id=parent.span_id)
    return trace_id_of_request.set(parent.trace_id)


def leave(followed: Token[str] | None) -> None:
    """End what `follow` began: the thread's next request has another trace, or none."""
    if followed is not None:
        trace_id_of_request.reset(followed)
