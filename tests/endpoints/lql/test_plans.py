"""Time filters skip partitions and equality of `id` finds an index: in a log table, and through the sandbox's views."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from django.conf import settings

from endpoints.log_database.publishing import publish_draft
from endpoints.lql.lowering import LQLTable, lower
from endpoints.lql.parser import parse_lql
from endpoints.models import Endpoint
from endpoints.results.outcomes import Column, Statement
from endpoints.sql.sandbox import SandboxTable, check_sandbox_query

TABLE = LQLTable(
    "edge_logs",
    (
        Column("timestamp", "timestamp with time zone"),
        Column("id", "text"),
        Column("event_message", "text"),
        Column("metadata", "jsonb"),
    ),
)
PARTITION = re.compile(r"edge_logs_(?:p[0-9]+|default)\b")

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.one_server("the coordinator of a cluster does not show the plans of its workers"),
    pytest.mark.sql,
]


def checked_statement(lql: str) -> Statement:
    lowered = lower(parse_lql(lql), TABLE, now=datetime.now(UTC))
    tables = [SandboxTable(TABLE.name, tuple(column.name for column in TABLE.columns))]
    checked = check_sandbox_query(lowered.sql, tables=tables, parameters=lowered.parameters)
    return checked.statement(lowered.arguments, max_rows=1000)


def explain(connection: psycopg.Connection[Any], lql: str) -> str:
    """Return the plan of the checked statement as the service would send it: once, with its values known."""
    statement = checked_statement(lql)
    with psycopg.RawCursor(connection) as cursor:
        cursor.execute("EXPLAIN (COSTS OFF) " + statement.sql, statement.arguments, prepare=False)
        return "\n".join(row[0] for row in cursor)


@pytest.fixture
def owner(log_database: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    """The owner of the log tables, who sees them without views and policies."""
    log_database.execute("SET search_path = logs")
    return log_database


@pytest.fixture
def reader(log_database: psycopg.Connection[Any]) -> Iterator[psycopg.Connection[Any]]:
    """sandbox_reader over the views of logs.all, for one project and with row security below them."""
    endpoint = Endpoint.objects.get(name="logs.all")
    schema, _ = publish_draft(endpoint, endpoint.parameters_of_version)
    with psycopg.connect(**settings.LOGS_GATE, autocommit=True) as gate:
        armed = {
            "logs.scope": "tenant",
            "logs.tenant": "=acme",
            "logs.arg_project": "=acme",
            "search_path": f'"{schema}", pg_catalog, pg_temp',
            "role": "sandbox_reader",
        }
        for setting in armed.items():
            gate.execute("SELECT set_config(%s, %s, false)", setting)
        yield gate


@pytest.fixture
def rows_of_today(log_database: psycopg.Connection[Any]) -> None:
    """Enough rows of one project for an index to be worth it."""
    log_database.execute(
        "INSERT INTO logs.edge_logs (id, project, timestamp, event_message, metadata)"
        " SELECT md5(n::text), 'acme', now(), 'GET /', '[{}]' FROM generate_series(1, 1000) AS n"
    )
    log_database.execute("ANALYZE logs.edge_logs")


@pytest.fixture(params=["owner", "reader"])
def session(request: pytest.FixtureRequest, rows_of_today: None) -> psycopg.Connection[Any]:
    """The owner, who sees every project, or the reader of one."""
    connection: psycopg.Connection[Any] = request.getfixturevalue(request.param)
    # The partitions without rows would else be read in one piece.
    connection.execute("SET enable_seqscan = off")
    return connection


@pytest.mark.parametrize(
    ("lql", "partitions"),
    [
        ("t:today", 1),
        ("t:yesterday", 1),
        ("t:now", 1),
        ("t:last@1d", 2),
        ("t:>=9998-01-01", 1),
        ("t:today m.level:error 50% s:m.level", 1),
        ("t:today c:avg(m.status) m.level:error..alert", 1),
    ],
)
def test_a_time_filter_skips_the_other_partitions(session: psycopg.Connection[Any], lql: str, partitions: int) -> None:
    everywhere = set(PARTITION.findall(explain(session, "m.level:error")))
    assert len(everywhere) > 5
    assert len(set(PARTITION.findall(explain(session, lql)))) == partitions


@pytest.mark.parametrize("lql", ["id:abc", 'id:"a b" m.x:1', "id:abc s:m.x", "id:abc c:count(*)", "~x id:abc"])
def test_equality_of_id_finds_the_index(session: psycopg.Connection[Any], lql: str) -> None:
    today = f"edge_logs_p{datetime.now(UTC):%Y%m%d}"
    plan = explain(session, lql)
    assert re.search(rf"Index (Only )?Scan( Backward)? (using|on) {today}_pkey.*\n\s+Index Cond: \(+id = '", plan), plan
    assert "Seq Scan" not in plan


@pytest.mark.usefixtures("rows_of_today")
def test_equality_of_id_finds_the_rows_of_the_tenant_in_the_index(reader: psycopg.Connection[Any]) -> None:
    today = f"edge_logs_p{datetime.now(UTC):%Y%m%d}"
    plan = explain(reader, "id:abc")
    assert re.search(rf"{today}_pkey.*\n\s+Index Cond: .*id = 'abc'.*project = ", plan), plan


def test_a_time_filter_finds_the_index_inside_a_partition(session: psycopg.Connection[Any]) -> None:
    assert re.search(r'Index Cond: .*"timestamp" >= ', explain(session, "t:today"))


def test_a_negated_filter_finds_none(session: psycopg.Connection[Any]) -> None:
    """The comparisons above can fail."""
    plan = explain(session, "-id:abc -t:today")
    assert "id = 'abc'" in plan
    assert not re.search(r"Index Cond: .*id = ", plan)
    assert len(set(PARTITION.findall(plan))) > 5


@pytest.mark.parametrize(
    ("lql", "rows"),
    [
        ("m.level:error", 1),
        ("-m.level:error -m.n:>20 -m.n:1..2 -m.tags:~c", 1),
        ("m.n:>=8 m.tags:@>~^b t:today -id:x -id:>zz GET ~^GET m.missing:NULL", 1),
        ("s:m.n s:m.tags@tags s:id s:timestamp", 2),
        *(
            (f"c:{aggregate}(m.n) c:group_by(t::day)", 1)
            for aggregate in ("count", "countd", "avg", "sum", "max", "p95")
        ),
        ("c:count(*)", 1),
        ("c:max(*)", 1),
    ],
)
def test_the_sandbox_reader_may_run_all_that_queries_call(
    log_database: psycopg.Connection[Any], reader: psycopg.Connection[Any], lql: str, rows: int
) -> None:
    log_database.execute(
        "INSERT INTO logs.edge_logs (id, project, timestamp, event_message, metadata)"
        " SELECT 'row' || n, 'acme', date_trunc('day', now()), 'GET /',"
        " jsonb_build_array(jsonb_build_object("
        "'level', (array['error', 'info'])[n], 'n', n * 7, 'tags', array['a', 'b']))"
        " FROM generate_series(1, 2) AS n"
    )
    with psycopg.RawCursor(reader) as cursor:
        statement = checked_statement(lql)
        assert len(cursor.execute(statement.sql, statement.arguments, prepare=False).fetchall()) == rows


@pytest.mark.parametrize(
    "lql",
    ["m.level:error", "m.n:>=500", "m.at:>2025-01-01T00:00:00Z", "m.n:1..2", "m.tags:@>a", "-m.a.b:~x", "m.x:1 s:m.y.z",
        "m.a:1 c:count(m.b)", "m.level:1 c:avg(m.n)"],
)  # fmt: skip
def test_a_plan_for_any_arguments_reads_a_path_once(owner: psycopg.Connection[Any], lql: str) -> None:
    """A connection keeps such a plan for repeated queries; reading a path for each row takes 20 times as long."""
    statement = checked_statement(lql)
    owner.execute("SET plan_cache_mode = force_generic_plan")
    owner.execute(b"PREPARE repeated AS " + statement.sql.encode())
    nulls = ", ".join(["NULL"] * len(statement.arguments))
    plan = "\n".join(
        row[0] for row in owner.execute(f"EXPLAIN (COSTS OFF, VERBOSE) EXECUTE repeated ({nulls})".encode())
    )
    owner.execute("DEALLOCATE repeated")
    casts = [line.strip() for line in plan.splitlines() if re.search(r"\$\d+(::text)?\)?::json", line)]
    assert casts
    assert all(re.fullmatch(r"Output: \(\$\d+\)::json(path|b)", line) for line in casts), plan
