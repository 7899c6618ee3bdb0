"""The lines that a call writes to the log: each event with its level, its keys and the types of their values."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping
from typing import Final

import pytest
import structlog
from django.core.wsgi import get_wsgi_application

from endpoints.api.fast_path import FastPath
from tests.recorded.asking import Client
from tests.recorded.recordings import assert_recorded
from tests.recorded.requests import recorded_requests
from tests.recorded.requests_of_surfaces import requests_of_surfaces

pytestmark = pytest.mark.django_db
# One request of each way to write lines, by the names of the recorded requests.
REQUESTS: Final = (
    "types as json", "log rows as csv", "no access token", "an endpoint there is not", "several mistakes",
    "method PUT", "JSON {", "a body over its limit", "the stored query fails", "the stored query takes too long",
    "too many calls", "too many calls, again", "cached: a miss", "cached: a hit", "cached, HEAD",
    "sql 'select 1/0'", "sql 'select'", "sql 'select 1;'", "sql by POST", "lql f:auth_logs as json", "lql ( as json",
    "bigquery merge x", "bigquery select safe_divide(1, 0) as x", "address /api/nothing", "address /livez",
    "page 1 as json", "page 2 as json", "page token 'x'", "stream as csv", "stream that fails as csv",
    "tail, first page", "types as parquet", "large in 'gzip'",
    "/api/tokens: a token, method PATCH", "token: by everything", "token: no endpoints", "MCP call: rows",
    "MCP call: a mistake", "MCP call: a failure", "MCP call: refused sql", "MCP tools/list", "MCP body {", "MCP by ''",
    "cancel 'none'", "purge", "purge by 'bound'", "/readyz by GET", "/metrics by GET", "load NDJSON", "load null",
    "load by bound", "load, bad rows 'skip'", "OTLP, application/json: records", "OTLP, application/json: half",
)  # fmt: skip
TYPES: Final = {bool: "boolean", int: "number", float: "number", str: "text", list: "list", dict: "object"}


@pytest.fixture
def on_stderr(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Log lines go to the standard error of the process, as in the service, where this test reads them."""
    (handler,) = [each for each in logging.getLogger().handlers if type(each) is logging.StreamHandler]
    with os.fdopen(os.dup(2), "w") as stderr:
        before = handler.setStream(stderr)
        yield
        handler.setStream(before)


def described(line: str) -> str:
    entry = json.loads(line)
    event, level = entry.pop("event"), entry.pop("level")
    return f"{level} {event}: {', '.join(f'{key} {TYPES[type(value)]}' for key, value in sorted(entry.items()))}"


def test_calls_write_the_recorded_lines(
    secrets: Mapping[str, str], on_stderr: None, capfd: pytest.CaptureFixture[str]
) -> None:
    requests = {request.name: request for request in (*recorded_requests(), *requests_of_surfaces())}
    structlog.contextvars.clear_contextvars()  # a command that ran in this process has left its own
    client = Client(FastPath(get_wsgi_application()), secrets)
    lines: list[str] = []
    for name in REQUESTS:
        capfd.readouterr()
        client.ask(requests[name])
        lines += [f"{name}: {described(line)}" for line in capfd.readouterr().err.splitlines()]
    assert_recorded("log_lines.txt", lines)
