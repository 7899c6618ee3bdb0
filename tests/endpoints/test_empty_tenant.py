"""Rows without a project have the empty text for it, and belong to nobody: no empty argument shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.core.exceptions import ValidationError

from endpoints.access.access_tokens import issue_access_token
from endpoints.calling.prepared_queries import sandbox_session, stored_session
from endpoints.log_database.execution import run_statement
from endpoints.log_database.publishing import publish_draft
from endpoints.log_database.sessions import ReaderSession
from endpoints.lql.lowering import LQLTable, lower
from endpoints.lql.parser import parse_lql
from endpoints.models import AccessToken, Endpoint
from endpoints.results.outcomes import Column, Statement
from endpoints.sql.sandbox import SandboxTable, check_sandbox_query
from tests.conftest import ApiClient
from tests.moments import now

pytestmark = [pytest.mark.django_db, pytest.mark.sql]
TABLES = ("edge_logs", "function_logs")  # the project as a field of the row, and inside metadata


@pytest.fixture(autouse=True)
def rows(insert_rows: Callable[..., None]) -> None:
    for table in TABLES:
        insert_rows(table, [{"timestamp": now(), "project": name, "id": f"of {name}"} for name in ("acme", "")])


@pytest.fixture
def endpoint() -> Endpoint:
    return Endpoint.objects.get(name="logs.all")


def arguments(project: str | None) -> dict[str, Any]:
    return {"project": project, "iso_timestamp_start": None, "iso_timestamp_end": None}


def found(statement: Statement, session: ReaderSession) -> int:
    return len(run_statement(statement, session, max_rows=10).rows)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("condition", ["true", "project = ''", "project = $1", "coalesce(project, '') = ''"])
@pytest.mark.parametrize("project", ["", None])
def test_a_stored_query_of_an_empty_tenant_sees_no_row(
    endpoint: Endpoint, table: str, condition: str, project: str | None
) -> None:
    session = stored_session(endpoint, arguments(project))
    values = ("",) if "$1" in condition else ()
    assert found(Statement(f"SELECT id FROM {table} WHERE {condition}", values), session) == 0


def sandbox(endpoint: Endpoint, project: str | None) -> ReaderSession:
    schema, _ = publish_draft(endpoint, endpoint.parameters_of_version)
    return sandbox_session(endpoint, schema, arguments(project))


COLUMNS = (
    Column("timestamp", "timestamp with time zone"),
    Column("id", "text"),
    Column("event_message", "text"),
    Column("metadata", "jsonb"),
)


def sandbox_statement(table: str, *, sql: str = "", lql: str = "") -> Statement:
    lowered = lower(parse_lql(lql), LQLTable(table, COLUMNS), now=now()) if lql else None
    tables = [SandboxTable(table, tuple(column.name for column in COLUMNS))]
    if lowered is None:
        return check_sandbox_query(sql, tables=tables).statement({}, max_rows=10)
    checked = check_sandbox_query(lowered.sql, tables=tables, parameters=lowered.parameters)
    return checked.statement(lowered.arguments, max_rows=10)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(("project", "rows_shown"), [("acme", 1), ("", 0), (None, 0)])
def test_a_sandbox_query_of_an_empty_tenant_sees_no_row(
    endpoint: Endpoint, table: str, project: str | None, rows_shown: int
) -> None:
    session = sandbox(endpoint, project)
    assert found(sandbox_statement(table, sql=f"select id from {table}"), session) == rows_shown
    assert found(sandbox_statement(table, lql="id:~of"), session) == rows_shown


@pytest.mark.parametrize("table", TABLES)
def test_a_view_without_a_condition_on_the_project_shows_an_empty_tenant_no_row(endpoint: Endpoint, table: str) -> None:
    endpoint.sql = f"with {table} as (select timestamp, id, event_message, metadata from logs.{table}) select 1 as one"
    statement = sandbox_statement(table, sql=f"select id from {table}")
    assert found(statement, sandbox(endpoint, "acme")) == 1
    assert found(statement, sandbox(endpoint, "")) == 0


@pytest.mark.parametrize(
    "query", [{}, {"sql": "select id from edge_logs"}, {"lql": "id:~of"}], ids=["stored", "sql", "lql"]
)
def test_an_empty_argument_is_missing(api: ApiClient, query: dict[str, str]) -> None:
    assert len(api.query("logs.all", {"project": "acme", **query}).json()["result"]) == 1
    response = api.query("logs.all", {"project": "", **query})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_parameters")


@pytest.mark.parametrize(
    "query", [{}, {"sql": "select id from edge_logs"}, {"lql": "id:~of"}], ids=["stored", "sql", "lql"]
)
def test_an_access_token_bound_to_the_empty_text_gets_no_row(query: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        issue_access_token(name="bound to nothing", bound_arguments={"project": ""})
    issued = issue_access_token(name="bound", bound_arguments={"project": "acme"})
    AccessToken.objects.filter(pk=issued.access_token.pk).update(bound_arguments={"project": ""})
    client = ApiClient(issued.secret)
    assert client.query("logs.all", query).status_code == 400
    assert client.query("logs.all", {"project": "", **query}).status_code == 400
    assert client.query("logs.all", {"project": "acme", **query}).status_code == 403


def test_an_endpoint_that_shows_every_project_shows_rows_without_one(endpoint: Endpoint) -> None:
    endpoint.tenant_parameter = ""
    session = stored_session(endpoint, {})
    rows = run_statement(Statement("SELECT project FROM edge_logs ORDER BY 1"), session, max_rows=10).rows
    assert [row[0] for row in rows] == ["", "acme"]
    # As everywhere, an empty argument is NULL, which equals no project.
    assert found(Statement("SELECT 1 FROM edge_logs WHERE project = $1", (None,)), session) == 0


def test_gate_sees_nothing_with_the_empty_tenant(log_database: psycopg.Connection[Any]) -> None:
    assert log_database.execute("SELECT count(*) FROM logs.edge_logs").fetchone() == (2,)
    with psycopg.connect(**settings.LOGS_GATE, autocommit=True) as gate, gate.transaction(force_rollback=True):
        for name, value in {"logs.scope": "tenant", "logs.tenant": "=", "role": "query_reader"}.items():
            gate.execute("SELECT set_config(%s, %s, true)", (name, value))
        assert gate.execute("SELECT count(*) FROM logs.edge_logs").fetchone() == (0,)
