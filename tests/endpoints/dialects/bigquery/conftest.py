"""A log database with a few rows of every table that clients of BigQuery's dialect read, and the sandbox over it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import connections
from psycopg import Connection, sql

from endpoints.calling.prepared_queries import sandbox_session
from endpoints.definition import PublishedTable
from endpoints.dialects.bigquery import BigQueryTable, log_table, translate
from endpoints.log_database.execution import run_statement
from endpoints.log_database.publishing import publish_draft
from endpoints.models import Endpoint
from endpoints.results.encoding import encode_rows
from endpoints.results.outcomes import ResultFormat
from endpoints.sql.parameters import DeclaredParameter
from endpoints.sql.sandbox import CheckedQuery, SandboxTable, check_sandbox_query
from logsources.databases import owner_connection
from tests.files import CASES

ROWS = CASES / "bigquery" / "rows.jsonl"
# The names that such clients use, and the log tables here.
LOG_TABLES = {
    "edge_logs": "edge_logs",
    "postgres_logs": "database_logs",
    "function_edge_logs": "function_edge_logs",
    "function_logs": "function_logs",
    "auth_logs": "auth_logs",
    "realtime_logs": "realtime_logs",
    "storage_logs": "storage_logs",
    "postgrest_logs": "rest_logs",
    "pgbouncer_logs": "pooler_logs",
    "supavisor_logs": "pooler_logs",
}
PARAMETERS = (DeclaredParameter("project"),)
ARGUMENTS = {"project": "acme"}


@dataclass(frozen=True, slots=True)
class BigQuerySandbox:
    """The sandbox of a version whose tables have the clients' names; a text runs in it as a consumer's would."""

    endpoint: Endpoint
    schema: str
    published: tuple[PublishedTable, ...]

    @property
    def tables(self) -> tuple[BigQueryTable, ...]:
        return tuple(log_table(table.name, table.columns) for table in self.published)

    def checked(self, text: str) -> CheckedQuery:
        names = [SandboxTable(table.name, tuple(c.name for c in table.columns)) for table in self.published]
        translation = translate(text, tables=self.tables)
        return check_sandbox_query(translation.sql, tables=names, parameters=PARAMETERS)

    def rows(self, text: str) -> list[dict[str, Any]]:
        """Return the rows as a caller sees them in JSON."""
        statement = self.checked(text).statement(ARGUMENTS, max_rows=1_000)
        session = sandbox_session(self.endpoint, self.schema, ARGUMENTS)
        rows = run_statement(statement, session, max_rows=1_000)
        return json.loads(encode_rows(rows, ResultFormat.JSON, redact=False))["result"]


def _stored(value: Any) -> Any:
    """Return a record as it is stored: every object as an array of one."""
    if isinstance(value, dict):
        return [{key: _stored(field) for key, field in value.items()}]
    return value


def _common_table(name: str, table: str) -> str:
    hidden = " and false" if name == "supavisor_logs" else ""
    return (
        f"{name} as (select t.timestamp, t.id, t.event_message, t.metadata from logs.{table} as t"
        f" where t.project = @project{hidden})"
    )


def _fill(owner: Connection[Any], rows=None) -> None:
    _empty(owner)
    for row in rows if rows is not None else map(json.loads, ROWS.read_text(encoding="utf-8").splitlines()):
        table = LOG_TABLES[row["table"]]
        values = {"timestamp": row["timestamp"], "id": row["id"], "event_message": row["event_message"]}
        values |= {"project": "acme", "metadata": json.dumps(_stored(row["metadata"]))}
        columns = sql.SQL(", ").join(map(sql.Identifier, values))
        marks = sql.SQL(", ").join(sql.Placeholder() for _ in values)
        insert = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(sql.Identifier("logs", table), columns, marks)
        owner.execute(insert, list(values.values()))


def _empty(owner: Connection[Any]) -> None:
    names = sql.SQL(", ").join(sql.Identifier("logs", table) for table in sorted(set(LOG_TABLES.values())))
    owner.execute(sql.SQL("TRUNCATE {}").format(names))


@pytest.fixture(scope="module")
def bigquery(django_db_setup: None, django_db_blocker: Any) -> Iterator[BigQuerySandbox]:
    """The sandbox, for all tests of a module: they only read."""
    with django_db_blocker.unblock():
        endpoint = Endpoint.objects.get(name="logs.all")
        tables = ",\n".join(_common_table(name, table) for name, table in LOG_TABLES.items())
        endpoint.sql = f"with {tables}\nselect 1 as one"
        schema, published = publish_draft(endpoint, PARAMETERS)
        with owner_connection() as owner:
            try:
                _fill(owner)
                yield BigQuerySandbox(endpoint, schema, published)
            finally:
                _empty(owner)
        connections.close_all()
