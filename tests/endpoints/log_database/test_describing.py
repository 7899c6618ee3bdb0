"""Statements are described as the reader without being run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import psycopg
import pytest
from django.conf import settings
from psycopg.pq import TransactionStatus

from endpoints.log_database import servers
from endpoints.log_database.describing import MAX_UNTOLD, describe_statement, parameter_types
from endpoints.log_database.execution import StatementFailed
from endpoints.log_database.gate import GatePool
from endpoints.log_database.servers import LogServers
from endpoints.log_database.sessions import ReaderSession
from endpoints.results.outcomes import Column, Statement
from endpoints.sql.parameter_uses import numbered_uses
from logsources.roles import QUERY_READER

pytestmark = [pytest.mark.django_db, pytest.mark.sql]
NOBODY = ReaderSession(role=QUERY_READER, search_path="logs", statement_timeout_seconds=5, tenant="")


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[GatePool]:
    """A pool of its own with two connections."""
    own = GatePool(settings.LOGS_GATE, size=2, wait_seconds=0.3)
    monkeypatch.setattr(servers, "_servers", LogServers([own]))
    yield own
    own.close()


def test_describes_columns_without_running_the_statement() -> None:
    statement = Statement(
        "SELECT timestamp, metadata AS m, count(*) AS n, pg_sleep(60), array[1.5]::numeric(4,1)[] AS list"
        " FROM edge_logs WHERE project = ($1::text) GROUP BY 1, 2",
        (None,),
    )
    assert describe_statement(statement, NOBODY) == (
        Column("timestamp", "timestamp with time zone"),
        Column("m", "jsonb"),
        Column("n", "bigint"),
        Column("pg_sleep", "void"),
        Column("list", "numeric(4,1)[]"),
    )


def test_describing_tells_where_postgresql_found_the_fault() -> None:
    with pytest.raises(StatementFailed) as failure:
        describe_statement(Statement("SELECT nothing FROM edge_logs"), NOBODY)
    assert (failure.value.sqlstate, failure.value.position) == ("42703", 8)


@pytest.mark.parametrize(
    ("sql", "sqlstate"),
    [
        ("SELECT rolname FROM pg_authid", "42501"),
        ("SELECT ($1::text) AS a FROM pg_authid WHERE coalesce(($1::text), '')::int = 1", "42501"),
        ("SELECT * FROM logs.edge_logs_default", "42501"),
        ("SELECT pg_read_file(($1::text))", "42501"),
        ("SELECT pg_read_file('/etc/passwd')", "42501"),
        ("SELECT 1 FROM edge_logs FOR UPDATE", "42501"),
    ],
)
def test_describing_refuses_what_the_reader_may_not_read(sql: str, sqlstate: str) -> None:
    with pytest.raises(StatementFailed) as failure:
        describe_statement(Statement(sql, (None,) if "$1" in sql else ()), NOBODY)
    assert failure.value.sqlstate == sqlstate


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT coalesce(($1::text), '')::int AS a",
        "SELECT 1 AS a FROM edge_logs WHERE timestamp > coalesce(($1::text), '')::timestamptz",
        "SELECT 1 / (coalesce(length(($1::text)), 0)) AS a",
    ],
)
def test_describing_does_not_compute_with_arguments_that_are_not_known_yet(sql: str) -> None:
    assert [column.name for column in describe_statement(Statement(sql, (None,)), NOBODY)] == ["a"]


def test_describing_leaves_no_prepared_statement(pool: GatePool) -> None:
    for sql in ("SELECT 1 AS a", "SELECT nothing", "SELECT 1 AS a FROM pg_authid"):
        with suppress(StatementFailed):
            describe_statement(Statement(sql), NOBODY)
    with pool.connection() as connection, pytest.raises(psycopg.errors.InvalidSqlStatementName):
        connection.execute("DEALLOCATE described")


def test_postgresql_tells_the_type_of_each_use_and_runs_nothing(pool: GatePool) -> None:
    sql = (
        "SELECT pg_sleep(60) FROM edge_logs WHERE (@a IS NULL OR length(id) > @a) AND id = @b AND coalesce(@c, @d) = @e"
    )
    assert parameter_types(numbered_uses(sql), NOBODY) == {2: "int4", 3: "text", 4: "text", 5: "text", 6: "text"}
    assert parameter_types(numbered_uses("SELECT @a::int[], @b::jsonb"), NOBODY) == {1: "int4[]", 2: "jsonb"}


def test_a_refused_statement_without_types_leaves_the_connection_as_it_was(pool: GatePool) -> None:
    for sql in ("SELECT nothing, @a FROM edge_logs", "SELECT @a - @b", "SELECT @a::nothing"):
        with pytest.raises(StatementFailed):
            parameter_types(numbered_uses(sql), NOBODY)
    with pool.connection() as first, pool.connection() as second:
        statuses = {connection.info.transaction_status for connection in (first, second)}
    assert statuses == {TransactionStatus.IDLE}
    assert describe_statement(Statement("SELECT id FROM edge_logs"), NOBODY) == (Column("id", "text"),)


@pytest.mark.parametrize("sql", ["SELECT rolname, @a FROM pg_authid", "SELECT @a, * FROM logs.edge_logs_default"])
def test_types_are_told_without_reading_what_the_reader_may_not(sql: str) -> None:
    parameter_types(numbered_uses(sql), NOBODY)  # names are public in PostgreSQL's catalog; rows are not read
    with pytest.raises(StatementFailed) as failure:
        describe_statement(Statement(sql.replace("@a", "($1::text)"), (None,)), NOBODY)
    assert failure.value.sqlstate == "42501"


def test_uses_without_a_type_are_asked_for_only_so_often() -> None:
    def asked(uses: int) -> dict[int, str]:
        return parameter_types(numbered_uses(f"SELECT num_nulls({', '.join(['@a'] * uses)})"), NOBODY)

    assert asked(3) == {}
    assert asked(MAX_UNTOLD - 1) == {}
    with pytest.raises(StatementFailed) as failure:
        asked(MAX_UNTOLD)
    assert failure.value.sqlstate == "42P18"
