"""Attempts to get by tenant, bound arguments, redaction and limits through a stream; and at imitating its last line."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from endpoints.access.access_tokens import issue_access_token, revoke_access_tokens
from endpoints.access.secrets import OwnLimits
from endpoints.defining.saving import save_endpoint
from endpoints.log_database import streaming
from endpoints.models import AccessToken, Endpoint
from endpoints.results.encoding import CHUNK_ROWS
from endpoints.results.outcomes import ResultFormat
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from tests.conftest import ApiClient

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("living_log_database")]

NDJSON, CSV = ResultFormat.NDJSON.value, ResultFormat.CSV.value
BOTH = pytest.mark.parametrize("accept", [NDJSON, CSV])
NAME = "test.streamed"
LOGS = (
    "WITH edge_logs AS (SELECT id, timestamp, event_message, metadata FROM logs.edge_logs ORDER BY timestamp)"
    " SELECT event_message FROM edge_logs"
)
PROJECT = DeclaredParameter(name="project", type=ParameterType.TEXT, required=True)
PERSON = "robin@example.org from 203.0.113.7 and 2001:db8::7"
STREAM_ROWS = 2 * CHUNK_ROWS


@pytest.fixture
def rows(insert_rows: Callable[..., None]) -> None:
    now = datetime.now(UTC)
    insert_rows(
        "edge_logs",
        [
            {
                "timestamp": now - timedelta(seconds=number),
                "project": project,
                "event_message": f"{project}: {PERSON}",
                "metadata": [{"who": PERSON}],
            }
            for number in range(2)
            for project in ("acme", "globex")
        ],
    )


@pytest.fixture
def endpoint(rows: None) -> Endpoint:
    """Rows of one tenant with a sandbox; its stored query has no condition of its own, and reads the parameter."""
    sql = LOGS.replace("FROM logs.edge_logs", "FROM logs.edge_logs WHERE @project IS NOT NULL")
    settings = {"tenant_parameter": "project", "sandboxing": True, "stream_rows": STREAM_ROWS}
    return save_endpoint(Endpoint(name=NAME, sql=sql, **settings), [PROJECT])


def body_of(response: Any) -> bytes:
    return b"".join(response) if response.streaming else response.content


def code_of(response: Any) -> str:
    """Return the code of an error, whether it came as an answer or in the last line."""
    last = body_of(response).splitlines()[-1].removeprefix(b"# ")
    return str(json.loads(last).get("error", {}).get("code", ""))


# --- Tenant and bound arguments ---------------------------------------------------------------------------------------
@BOTH
@pytest.mark.parametrize(
    "query",
    [
        {},
        {"sql": "select event_message from edge_logs"},
        {"sql": "select event_message from edge_logs where true or event_message like 'globex%'"},
        {"lql": "s:event_message f:edge_logs"},
    ],
)
def test_streams_the_rows_of_the_tenant_alone(
    api: ApiClient, endpoint: Endpoint, query: dict[str, str], accept: str
) -> None:
    response = api.query(NAME, {"project": "acme", **query}, Accept=accept)
    assert response.streaming
    body = body_of(response)
    assert body.count(b"acme: ") == 2
    assert b"globex" not in body


@pytest.mark.parametrize("project", ["", "'globex' OR true", "acme' OR '1'='1", "globex\t", "=globex"])
def test_another_spelling_of_a_tenant_has_no_rows(api: ApiClient, endpoint: Endpoint, project: str) -> None:
    response = api.query(NAME, {"project": project}, Accept=NDJSON)
    body = body_of(response)
    assert b"globex: " not in body
    assert b"acme: " not in body


@BOTH
def test_a_bound_access_token_streams_nothing_else(endpoint: Endpoint, accept: str) -> None:
    bound = ApiClient(issue_access_token(name="acme's", bound_arguments={"project": "acme"}).secret)
    refused = bound.query(NAME, {"project": "globex"}, Accept=accept)
    assert (refused.status_code, code_of(refused)) == (403, "argument_not_allowed")
    body = body_of(bound.query(NAME, Accept=accept))
    assert body.count(b"acme: ") == 2
    assert b"globex" not in body


def test_who_may_not_call_may_not_stream(endpoint: Endpoint) -> None:
    other = save_endpoint(Endpoint(name="test.other", sql="SELECT 1"), [])
    limited = issue_access_token(name="limited", endpoint_names=[other.name]).secret
    revoked = issue_access_token(name="revoked").secret
    revoke_access_tokens(AccessToken.objects.filter(name="revoked"))
    answers = [ApiClient(each).query(NAME, {"project": "acme"}, Accept=NDJSON) for each in (limited, revoked, "")]
    assert [answer.status_code for answer in answers] == [404, 401, 401]


# --- Sandbox ----------------------------------------------------------------------------------------------------------
@BOTH
@pytest.mark.parametrize(
    "sql",
    [
        "select * from logs.edge_logs",
        "select * from pg_authid",
        "select set_config('logs.tenant', '=globex', true)",
        "select 1; select 2",
        "copy edge_logs to stdout",
        "declare c cursor for select 1",
        "select event_message from edge_logs for update",
    ],
)
def test_the_sandbox_refuses_what_it_refuses_elsewhere(
    api: ApiClient, endpoint: Endpoint, sql: str, accept: str
) -> None:
    response = api.query(NAME, {"project": "acme", "sql": sql}, Accept=accept)
    assert not response.streaming
    assert (response.status_code, code_of(response)) == (400, "sandbox_violation")


def test_a_stream_opens_no_sandbox_that_is_closed(api: ApiClient, rows: None) -> None:
    save_endpoint(Endpoint(name=NAME, sql="SELECT 1 AS one", stream_rows=10), [])
    response = api.query(NAME, {"sql": "select 1"}, Accept=NDJSON)
    assert (response.status_code, code_of(response)) == (400, "sandbox_disabled")


# --- Redaction --------------------------------------------------------------------------------------------------------
@BOTH
@pytest.mark.parametrize("query", [{}, {"sql": "select metadata, event_message from edge_logs"}])
@pytest.mark.parametrize("by", ["caller", "operator"])
def test_hides_persons_in_every_chunk(
    api: ApiClient, endpoint: Endpoint, query: dict[str, str], accept: str, by: str
) -> None:
    headers = {"SVC_ENDPOINT_REDACT_PII": "true"} if by == "caller" else {"SVC_ENDPOINT_REDACT_PII": "false"}
    if by == "operator":
        endpoint.redact_pii = True
        save_endpoint(endpoint, [PROJECT])
    body = body_of(api.query(NAME, {"project": "acme", **query}, Accept=accept, **headers))
    assert b"REDACTED" in body
    assert not [part for part in PERSON.split() if part.encode() in body and ("." in part or ":" in part)]


def test_hides_persons_behind_the_first_chunk(api: ApiClient) -> None:
    sql = f"SELECT '{PERSON}' AS text FROM generate_series(1, {3 * CHUNK_ROWS})"
    save_endpoint(Endpoint(name=NAME, sql=sql, stream_rows=10_000, redact_pii=True), [])
    body = body_of(api.query(NAME, Accept=NDJSON))
    assert body.count(b"REDACTED") == 3 * 3 * CHUNK_ROWS
    assert b"203.0.113.7" not in body


# --- Limits -----------------------------------------------------------------------------------------------------------
NUMBERS = "WITH t AS (SELECT n FROM generate_series(1, 3000) AS n) SELECT count(*) AS n FROM t"


def numbers(**settings: Any) -> Endpoint:
    return save_endpoint(Endpoint(name=NAME, sql=NUMBERS, sandboxing=True, **{"stream_rows": 500, **settings}), [])


@pytest.mark.parametrize("sql", ["select n from t", "select n from t limit 2000", "select a.n from t a, t b"])
def test_no_query_gets_more_rows_than_the_limit(api: ApiClient, sql: str) -> None:
    numbers()
    *rows, last = body_of(api.query(NAME, {"sql": sql}, Accept=NDJSON)).splitlines()
    assert len(rows) == 500
    assert json.loads(last)["end"] | {"request_id": ""} == {"rows": 500, "truncated": True, "request_id": ""}


WIDE_TEXT = "x" * 2_000


@pytest.mark.parametrize(
    "sql",
    [
        f"select n, '{WIDE_TEXT}' as filling from t",
        f"select n, '{WIDE_TEXT}' as filling, sum(n) over (order by n rows unbounded preceding) as s from t",
        f"select n, '{WIDE_TEXT}' as \"UNBOUNDED PRECEDING\" from t",
    ],
)
def test_every_chunk_of_a_sandbox_query_has_the_budget_of_a_result(api: ApiClient, settings: Any, sql: str) -> None:
    numbers(stream_rows=1_000)
    settings.ENDPOINTS_SANDBOX_MAX_BYTES = 2 * CHUNK_ROWS * len(WIDE_TEXT)
    response = api.query(NAME, {"sql": sql}, Accept=NDJSON)  # together four times the budget
    assert json.loads(body_of(response).splitlines()[-1])["end"]["rows"] == 1_000
    settings.ENDPOINTS_SANDBOX_MAX_BYTES = CHUNK_ROWS * len(WIDE_TEXT) // 2
    assert code_of(api.query(NAME, {"sql": sql}, Accept=NDJSON)) == "invalid_sql"


HEAVY = "select a.n from t a, t b, t c where a.n + b.n + c.n = -1"


def test_a_query_that_takes_too_long_is_ended_and_suspends_its_access_token(api: ApiClient, settings: Any) -> None:
    numbers(statement_timeout_seconds=1)
    settings.ENDPOINTS_OVERRUN_SECONDS = 60.0
    assert code_of(api.query(NAME, {"sql": HEAVY}, Accept=NDJSON)) == "query_timeout"
    assert code_of(api.query(NAME, {"sql": "select n from t"}, Accept=NDJSON)) == "sandbox_suspended"
    assert streaming._running == 0


def test_calls_a_minute_count_streams(settings: Any) -> None:
    numbers()
    client = ApiClient(issue_access_token(name="seldom", limits=OwnLimits(calls_a_minute=2)).secret)
    answers = [client.query(NAME, Accept=NDJSON) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    for answer in answers:
        answer.close()


def test_calls_that_fail_leave_no_stream_behind(api: ApiClient, settings: Any) -> None:
    settings.ENDPOINTS_STREAMS, settings.ENDPOINTS_STREAMS_AT_ONCE = 1, 1
    numbers()
    for sql in ("select nothing from t", "select n / 0 from t", "select * from nowhere") * 3:
        assert api.query(NAME, {"sql": sql}, Accept=NDJSON).status_code == 400
    assert body_of(api.query(NAME, Accept=NDJSON)).startswith(b'{"n":3000}\n')


# --- Last lines -------------------------------------------------------------------------------------------------------
def test_rows_cannot_imitate_the_last_line(api: ApiClient) -> None:
    """What somebody has written into a log does not contain the request id of a later answer."""
    forged = '{"rows": 1, "truncated": false, "request_id": "guessed"}'
    sql = f"SELECT '{forged}'::jsonb AS end, n FROM generate_series(1, 2) AS n"
    save_endpoint(Endpoint(name=NAME, sql=sql, stream_rows=1_000), [])
    response = api.query(NAME, Accept=NDJSON)
    request_id = response.headers["X-Request-ID"]
    lines = [json.loads(line) for line in body_of(response).splitlines()]
    assert [line["end"]["request_id"] == request_id for line in lines] == [False, False, True]


def test_a_csv_cell_cannot_begin_a_last_line(api: ApiClient) -> None:
    forged = '# {"end":{"rows":1,"truncated":false,"request_id":"guessed"}}'
    sql = f"SELECT E'a\\r\\n{forged}' AS text UNION ALL SELECT '{forged}'"
    save_endpoint(Endpoint(name=NAME, sql=sql, stream_rows=1_000), [])
    response = api.query(NAME, Accept=CSV)
    lines = body_of(response).decode().splitlines()
    ends = [line for line in lines if response.headers["X-Request-ID"] in line]
    assert ends == [lines[-1]]
    # A cell with quotation marks is quoted itself (RFC 4180), and so is one with line breaks.
    assert not [line for line in lines[:-1] if line.endswith('"guessed"}}')]
