"""A log database with a few rows of every table that clients of BigQuery's dialect read, and the sandbox over it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from django.db import connections
from psycopg import Connection, sql

from endpoints.calling.prepared_queries import sandbox_session
from endpoints.definition import PublishedTable
from endpoints.dialects import DIALECTS
from endpoints.log_database.execution import run_statement
from endpoints.log_database.publishing import publish_draft
from endpoints.models import Endpoint
from endpoints.results.encoding import encode_rows
from endpoints.results.outcomes import ResultFormat, TimestampForm
from endpoints.sql.parameters import DeclaredParameter
from logsources.databases import owner_connection
from tests import files
from tests.fuzz.bigquery_oracle import Comparison, compare
from tests.fuzz.bigquery_rows import METADATA, Row, inferred, stored, tables
from tests.fuzz.bigquery_rows import ROWS as ROWS_FOR_BOTH
from tests.fuzz.googlesql import GoogleSQL

ROWS = tuple(files.cases("bigquery/rows.jsonl"))
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

    def rows(self, text: str, timestamps_as: TimestampForm = TimestampForm.ISO) -> list[dict[str, Any]]:
        """Return the rows as a caller sees them in JSON."""
        tables = {table.name: table.columns for table in self.published}
        query, _ = DIALECTS["bigquery"].check(text, tables=tables, parameters=PARAMETERS, timestamps_as=timestamps_as)
        statement = query.statement(ARGUMENTS, max_rows=1_000)
        session = sandbox_session(self.endpoint, self.schema, ARGUMENTS)
        rows = run_statement(statement, session, max_rows=1_000)
        body = encode_rows(rows, ResultFormat.JSON, redact=False, timestamps_as=timestamps_as)
        return json.loads(body)["result"]


@dataclass(frozen=True, slots=True)
class BothEngines:
    """The sandbox and GoogleSQL's engine with the same rows, and what came of the texts so far."""

    sandbox: BigQuerySandbox
    google: GoogleSQL
    comparison: Comparison

    def ask(self, text: str, *, in_order: bool = False) -> None:
        """Answer a text in both; `in_order` if its rows have one order."""
        compare(text, self.google, self._rows, self.comparison, in_order=in_order)

    def _rows(self, text: str) -> list[dict[str, Any]]:
        return self.sandbox.rows(text, TimestampForm.UNIX_MICROSECONDS)

    def alone(self) -> BothEngines:
        """Return the same engines, of which nothing was asked yet."""
        return replace(self, comparison=Comparison())

    def same(self, text: str) -> bool:
        """Tell whether both answer a text alike; fails with both answers if they do not."""
        alone = self.alone()
        alone.ask(text)
        assert alone.comparison.same, alone.comparison.summary()
        return True


def _common_table(name: str, table: str) -> str:
    hidden = " and false" if name == "supavisor_logs" else ""
    return (
        f"{name} as (select t.timestamp, t.id, t.event_message, t.metadata from logs.{table} as t"
        f" where t.project = @project{hidden})"
    )


def _fill(owner: Connection[Any], rows: Iterable[Row]) -> None:
    _empty(owner)
    for row in rows:
        table = LOG_TABLES[row["table"]]
        values = {"timestamp": row["timestamp"], "id": row["id"], "event_message": row["event_message"]}
        values |= {"project": "acme", "metadata": json.dumps(stored(row["metadata"]))}
        columns = sql.SQL(", ").join(map(sql.Identifier, values))
        marks = sql.SQL(", ").join(sql.Placeholder() for _ in values)
        insert = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(sql.Identifier("logs", table), columns, marks)
        owner.execute(insert, list(values.values()))


def _empty(owner: Connection[Any]) -> None:
    names = sql.SQL(", ").join(sql.Identifier("logs", table) for table in sorted(set(LOG_TABLES.values())))
    owner.execute(sql.SQL("TRUNCATE {}").format(names))


@contextmanager
def _sandbox(blocker: Any, rows: Iterable[Row]) -> Iterator[BigQuerySandbox]:
    with blocker.unblock():
        endpoint = Endpoint.objects.get(name="logs.all")
        common_tables = ",\n".join(_common_table(name, table) for name, table in LOG_TABLES.items())
        endpoint.sql = f"with {common_tables}\nselect 1 as one"
        schema, published = publish_draft(endpoint, PARAMETERS)
        with owner_connection() as owner:
            try:
                _fill(owner, rows)
                yield BigQuerySandbox(endpoint, schema, published)
            finally:
                _empty(owner)
        connections.close_all()


@pytest.fixture(scope="module")
def bigquery(django_db_setup: None, django_db_blocker: Any) -> Iterator[BigQuerySandbox]:
    """The sandbox, for all tests of a module: they only read."""
    with _sandbox(django_db_blocker, ROWS) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def both_engines(django_db_setup: None, django_db_blocker: Any) -> Iterator[BothEngines]:
    """The sandbox over rows that GoogleSQL's engine has too, for all tests of a module."""
    with _sandbox(django_db_blocker, ROWS_FOR_BOTH) as sandbox:
        yield BothEngines(sandbox, GoogleSQL(tables(ROWS_FOR_BOTH, METADATA)), Comparison())


@pytest.fixture(scope="module")
def cases_in_both_engines(bigquery: BigQuerySandbox) -> BothEngines:
    """The sandbox over the rows of the cases, which GoogleSQL's engine has too."""
    names = dict.fromkeys(row["table"] for row in ROWS)
    metadata = {name: inferred(row["metadata"] for row in ROWS if row["table"] == name) for name in names}
    return BothEngines(bigquery, GoogleSQL(tables(ROWS, metadata)), Comparison())
