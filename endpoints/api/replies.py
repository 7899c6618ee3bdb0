"""Answers before they become Django's or the web server's: status, headers, bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import orjson
import structlog

from endpoints.errors import EndpointError

JSON: Final = "application/json; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


def error_reply(error: EndpointError, request_id: str) -> Reply:
    """Return the one error body with its status and headers; no cache on the way may keep it."""
    structlog.contextvars.bind_contextvars(error=error.code)
    headers = {"Content-Type": JSON, "Cache-Control": "no-store", **error.headers}
    return Reply(error.status, headers, orjson.dumps(error.body(request_id)))
