"""What `load_logs` takes from a file comes in over HTTP too, in every form, and the same rows are in the table."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from endpoints.access.access_tokens import issue_access_token
from logsources.loading import OnBadLine, load_rows
from logsources.models import LogSource
from logsources.services import create_source

pytestmark = pytest.mark.django_db
TODAY = datetime.now(UTC).replace(microsecond=0)

TEXT = st.text(max_size=12) | st.sampled_from(["", "\x00", "\ud800", "\\u0000", "é", "\U0001f600", "x" * 300])
NUMBERS = st.integers().map(str) | st.floats(allow_nan=False, allow_infinity=False).map(repr) | st.sampled_from(
    [
        *("1748852110120450", "1234567890123456e3", "0.1234567890123456789", "-0", "1e400", "1E-400", "1e131072"),
        *("9" * 5000, "NaN"),
    ]
)  # fmt: skip
VALUES = st.recursive(
    TEXT.map(json.dumps) | NUMBERS | st.sampled_from(["null", "true", "{}", "[]"]),
    lambda inner: (
        st.lists(inner, max_size=2).map(lambda items: f"[{','.join(items)}]")
        | st.dictionaries(TEXT.map(json.dumps), inner, max_size=2).map(lambda pairs: as_object(pairs))
    ),
    max_leaves=4,
)
MOMENTS = st.timedeltas(timedelta(days=-3), timedelta(days=3)).map(lambda ago: json.dumps((TODAY + ago).isoformat()))
# Every row has an id and a timestamp, good or bad: what a load makes up is another one each time.
LINES = st.builds(
    lambda row, rest: as_object({**rest, **row}),
    st.fixed_dictionaries(
        {
            '"id"': st.integers(0, 3).map(str) | TEXT.map(json.dumps) | st.sampled_from(["1.5", "[]"]),
            '"timestamp"': MOMENTS | st.sampled_from(["1748852110120450", "1748852110.25", '"1999-12-31"', '"soon"']),
        },
        optional={
            '"project"': st.just('"acme"') | TEXT.map(json.dumps) | VALUES,
            '"event_message"': TEXT.map(json.dumps) | VALUES,
            '"metadata"': VALUES,
        },
    ),
    st.just({'"project"': '"acme"', '"event_message"': '"m"'}) | st.just({}) | st.just({'"other"': "7"}),
) | VALUES.filter(lambda text: not text.startswith("["))  # a body that begins with a bracket is an array


def as_object(pairs: dict[str, str]) -> str:
    return "{" + ",".join(f"{name}:{value}" for name, value in pairs.items()) + "}"


@pytest.fixture(params=["", "ref"])
def sources(request: pytest.FixtureRequest, log_database: psycopg.Connection[Any]) -> Any:
    """Two log sources of one shape: for the command, and for HTTP."""
    path = request.param
    location = "metadata" if path else "row field"
    names = ("by_command_logs", "by_http_logs")
    # Kept for a century: without a retention, rows older than 400 days would be bad ones.
    shape = {"holds": "rows", "project_location": location, "project_path": path, "retention_days": 36_500}
    yield [create_source(name=name, **shape) for name in names]
    for name in names:
        log_database.execute(f"DROP TABLE IF EXISTS logs.{name}")


def in_form(lines: list[str], form: str) -> bytes:
    if form == "array":
        return f"[{', '.join(lines)}]".encode()
    return "\n".join(lines).encode()


def rows_of(log_database: psycopg.Connection[Any], source: LogSource) -> list[Any]:
    return log_database.execute(
        f"SELECT id, project, timestamp, event_message, metadata::text FROM logs.{source.name} ORDER BY 1, 3, 5"
    ).fetchall()


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(lines=st.lists(LINES, min_size=1, max_size=6), form=st.sampled_from(["array", "lines"]), packed=st.booleans())
def test_takes_what_load_logs_takes(
    sources: list[LogSource], log_database: psycopg.Connection[Any], lines: list[str], form: str, packed: bool
) -> None:
    by_command, by_http = sources
    log_database.execute(f"TRUNCATE logs.{by_command.name}, logs.{by_http.name}")
    report = load_rows(by_command, [line.encode() for line in lines], on_bad_line=OnBadLine.SKIP)
    body = in_form(lines, form)
    client = Client(headers={"X-API-KEY": issue_access_token(name="shipper", may_load=True).secret})

    def send(query: str) -> Any:
        return client.post(
            f"/api/logs?source={by_http.name}{query}",
            gzip.compress(body) if packed else body,
            content_type="application/json",
            headers={"Content-Encoding": "gzip"} if packed else {},
        )

    bad = [(bad_line.number - 1, bad_line.reason) for bad_line in report.bad_lines]
    refused = send("")
    if bad:
        assert refused.status_code == 400
        assert {(each["index"], each["reason"]) for each in refused.json()["error"]["details"]} == set(bad)
        assert rows_of(log_database, by_http) == []
    else:
        assert refused.status_code == 200
    # The id of a row that has none is made by each in its own way; the rest is the same.
    (result,) = send("&bad_rows=skip").json()["result"]
    assert result["loaded"] + result["already_there"] + result.get("bad_rows", 0) == len(lines)
    assert rows_of(log_database, by_http) == rows_of(log_database, by_command)
