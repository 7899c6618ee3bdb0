"""A version's CTEs are published as views that show what the stored query's CTEs show, to their reader alone."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils import timezone

from endpoints.calling.prepared_queries import sandbox_session
from endpoints.defining.saving import save_endpoint
from endpoints.defining.upkeep import delete_endpoints, drop_old_sandbox_schemas
from endpoints.definition import Definition, PublishedTable
from endpoints.log_database import publishing
from endpoints.log_database.execution import StatementFailed, run_statement
from endpoints.log_database.publishing import (
    drop_schemas,
    publish_draft,
    publish_sandbox,
    published_schemas,
    sandbox_schema,
)
from endpoints.models import Endpoint
from endpoints.results.outcomes import Column, Statement
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from endpoints.sql.stored_queries import may_be_of_catalog
from logsources.databases import owner_connection

pytestmark = [pytest.mark.django_db, pytest.mark.sql]
NOW = datetime(2025, 6, 2, 12, tzinfo=UTC)
PROJECT = DeclaredParameter("project", required=True)


@pytest.fixture
def stored(log_database):
    """Save a sandboxing endpoint with this SQL; its schemas go with the test."""
    saved = []

    def save(sql, *parameters, **fields) -> Endpoint:
        endpoint = Endpoint(name=f"test.published-{len(saved)}", sql=sql, sandboxing=True, **fields)
        saved.append(endpoint)
        return save_endpoint(endpoint, parameters)

    yield save
    ids = {endpoint.pk for endpoint in saved}
    drop_schemas(schema.name for schema in published_schemas() if schema.endpoint_id in ids)


def read(endpoint, sql, *, max_rows=100, **arguments):
    given = {parameter.name: None for parameter in endpoint.parameters_of_version} | arguments
    session = sandbox_session(endpoint, sandbox_schema(endpoint), given)
    return list(run_statement(Statement(sql), session, max_rows=max_rows).rows)


def schema_names(endpoint) -> set[str]:
    return {schema.name for schema in published_schemas() if schema.endpoint_id == endpoint.pk}


def test_describes_its_tables(stored) -> None:
    endpoint = stored(
        "with a as (select id, project, 1.5::numeric(4,1) as n from edge_logs),"
        ' "B c" (x, y) as (select @level, metadata from logs.edge_logs) select 1',
        DeclaredParameter("level", type=ParameterType.INTEGER),
    )
    assert [PublishedTable.from_json(json.loads(json.dumps(table))) for table in endpoint.sandbox_tables] == [
        PublishedTable("a", (Column("id", "text"), Column("project", "text"), Column("n", "numeric(4,1)"))),
        PublishedTable("B c", (Column("x", "bigint"), Column("y", "jsonb"))),
    ]


HOSTILE_LIST = ["a", 'b"c', "d\\e", "f,g", "", "NULL", "{h}"]
VALUES = [
    (ParameterType.TEXT, "it's \\ \"quoted\" =", "it's \\ \"quoted\" ="),
    (ParameterType.TEXT, "=", "="),
    (ParameterType.TEXT, None, None),
    (ParameterType.INTEGER, "-7", -7),
    (ParameterType.BOOLEAN, "true", True),
    (ParameterType.TIMESTAMP, "2025-06-02T12:00:00+00:00", "2025-06-02T12:00:00.000000Z"),
    (ParameterType.DATE, "2025-06-02", "2025-06-02"),
    (ParameterType.UUID, "0b9f3c1e-1111-4222-8333-123456789abc", "0b9f3c1e-1111-4222-8333-123456789abc"),
    (ParameterType.TEXT_LIST, HOSTILE_LIST, HOSTILE_LIST),
    (ParameterType.TEXT_LIST, [], []),
    (ParameterType.TEXT_LIST, None, None),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "value", "shown"), VALUES)
def test_a_view_reads_the_argument_of_its_call(stored, type_, value, shown) -> None:
    endpoint = stored("with a as (select @value as v) select * from a", DeclaredParameter("value", type=type_))
    assert read(endpoint, "select v from a", value=value) == [(shown,)]


def test_parameters_are_told_apart_in_any_case(stored) -> None:
    endpoint = stored("with a as (select @One as x, @two as y) select 1")
    assert read(endpoint, "select x, y from a", One="1", two=None) == [("1", None)]


def test_a_cte_reads_the_earlier_one_and_else_the_log_table(stored, insert_rows) -> None:
    insert_rows("edge_logs", [{"timestamp": NOW, "project": name, "id": name} for name in ("acme", "globex")])
    endpoint = stored(
        "with edge_logs as (select id from edge_logs where id = 'acme'),"
        " more as (select id || '!' as id from edge_logs),"
        " raw as (select count(*) as n from logs.edge_logs) select 1"
    )
    assert read(endpoint, "select id from edge_logs") == [("acme",)]
    assert read(endpoint, "select id from more") == [("acme!",)]
    assert read(endpoint, "select n from raw") == [(2,)]


def test_views_of_a_tenant_show_its_rows_alone_whatever_their_query_says(stored, insert_rows) -> None:
    insert_rows("edge_logs", [{"timestamp": NOW, "project": name, "id": name} for name in ("acme", "globex")])
    sql = "with a as (select id from edge_logs where @project is not null) select * from a"
    tenant = stored(sql, PROJECT, tenant_parameter="project")
    assert read(tenant, "select id from a", project="acme") == [("acme",)]
    assert read(tenant, "select id from a", project="nobody") == []
    assert read(tenant, "select id from a") == []
    everybody = stored(sql, PROJECT)
    assert sorted(read(everybody, "select id from a", project="acme")) == [("acme",), ("globex",)]


@pytest.mark.parametrize(
    ("sql", "sqlstate"),
    [
        ("select 1 from logs.edge_logs", "42501"),
        pytest.param(
            "select logs_private.argument('project')",
            "42501",
            marks=pytest.mark.one_server("on a cluster the reader may read its own arguments"),
        ),
        ("select 1 from logs.edge_logs_default", "42501"),
        ("select rolname from pg_authid", "42501"),
        ("delete from a", "55000"),  # its CTE is a subquery of the view, which therefore takes no change from anybody
        ("create table sandbox_x (a int)", "25006"),
        ("select 1; select 2", "42601"),
        ("select nothing from a", "42703"),
    ],
)
def test_the_reader_may_read_the_views_and_no_more(stored, sql, sqlstate) -> None:
    endpoint = stored("with a as (select id from edge_logs) select 1")
    with pytest.raises(StatementFailed) as failure:
        read(endpoint, sql)
    assert failure.value.sqlstate == sqlstate


def test_a_schema_is_its_versions_own(stored) -> None:
    endpoint = stored("with a as (select 1 as x) select 1")
    first = sandbox_schema(endpoint)
    endpoint.sql = "with a as (select 2 as x) select 1"
    save_endpoint(endpoint, [])
    assert sandbox_schema(endpoint) != first
    assert read(endpoint, "select x from a") == [(2,)]
    older = sandbox_session(endpoint, first, {})
    assert run_statement(Statement("select x from a"), older, max_rows=1).rows[0] == (1,)


def test_publishing_again_changes_nothing(stored, log_database) -> None:
    endpoint = stored("with a as (select @p::int as x) select 1")
    oids = f"select oid from pg_class where relnamespace = '{sandbox_schema(endpoint)}'::regnamespace"
    before = log_database.execute(oids).fetchall()
    assert [table.to_json() for table in publish_sandbox(endpoint.as_version())] == endpoint.sandbox_tables
    assert log_database.execute(oids).fetchall() == before
    assert len(before) == 1


def test_a_version_number_that_was_rolled_back_is_published_anew(stored) -> None:
    endpoint = stored("with a as (select 1 as x) select 1")
    endpoint.sql = "with a as (select 3 as x) select 1"
    publish_sandbox(endpoint.as_version())  # the same version with another text: the first save never came to be
    assert read(endpoint, "select x from a") == [(3,)]


def test_a_table_may_be_named_like_a_log_of_postgresql_because_no_catalog_is(log_database, stored) -> None:
    names = log_database.execute("SELECT relname FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace")
    assert [name for (name,) in names if name.startswith("pg_") and not may_be_of_catalog(name)] == []
    endpoint = stored("with pg_cron_logs as (select 1 as x) select 1")
    assert read(endpoint, "select x from pg_cron_logs") == [(1,)]


UNPUBLISHABLE = [
    ("select 1 as x", "Line 1, column 1: sandboxing needs a query that begins with WITH"),
    ("with recursive a as (select 1 as x) select * from a", "Line 1, column 6: WITH RECURSIVE"),
    ("with b as (select 1),\n  a as (select 1 as x, 2 as x) select 1", "Line 2, column 3: the CTE `a` cannot be"),
    ("with pg_class as (select 1 as x) select 1", "may not begin with `pg_`"),
    ("with a as (select row(1, 2) as x) select 1 as y", "the CTE `a` cannot be a sandbox table"),
]


@pytest.mark.parametrize(("sql", "message"), UNPUBLISHABLE)
def test_what_cannot_be_published_is_not_saved(log_database, sql, message) -> None:
    before = {schema.name for schema in published_schemas()}
    with pytest.raises(ValidationError) as refusal:
        save_endpoint(Endpoint(name="test.refused", sql=sql, sandboxing=True), [])
    (shown,) = refusal.value.message_dict["sql"]
    assert message in shown
    assert not Endpoint.objects.filter(name="test.refused").exists()
    assert {schema.name for schema in published_schemas()} == before


def test_the_same_query_is_saved_without_sandboxing(log_database) -> None:
    save_endpoint(Endpoint(name="test.plain", sql="with a as (select 1 as x, 2 as x) select 1 as y"), [])
    assert Endpoint.objects.get(name="test.plain").sandbox_tables == []


def test_old_versions_go_when_no_call_can_want_them(stored) -> None:
    endpoint = stored("with a as (select 1 as x) select 1")
    first = sandbox_schema(endpoint)
    save_endpoint(endpoint, [])
    drop_old_sandbox_schemas()
    assert schema_names(endpoint) == {first, sandbox_schema(endpoint)}  # a call may still be running
    long_ago = timezone.now() - timedelta(hours=1)
    age(endpoint, long_ago)
    drop_old_sandbox_schemas()
    assert schema_names(endpoint) == {sandbox_schema(endpoint)}
    assert read(endpoint, "select x from a") == [(1,)]


def test_the_version_before_stays_for_its_calls_however_old_it_is(stored) -> None:
    endpoint = stored("with a as (select 1 as x) select 1")
    first = sandbox_schema(endpoint)
    age(endpoint, timezone.now() - timedelta(days=1))
    save_endpoint(endpoint, [])
    drop_old_sandbox_schemas()
    assert schema_names(endpoint) == {first, sandbox_schema(endpoint)}


def test_the_schema_of_a_draft_goes_some_time_after_its_last_use(log_database) -> None:
    draft = Definition(sql="with of_a_draft as (select 1 as x) select 1")

    def make_old() -> None:
        old = {**json.loads(comment()), "published_at": (timezone.now() - timedelta(hours=1)).isoformat()}
        log_database.execute(f"COMMENT ON SCHEMA {name} IS '{json.dumps(old)}'")

    def comment() -> str:
        query = "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = %s"
        return log_database.execute(query, [name]).fetchone()[0]

    name, tables = publish_draft(draft, ())
    assert [table.name for table in tables] == ["of_a_draft"]
    made = comment()
    assert publish_draft(draft, ()) == (name, tables)
    assert comment() == made
    make_old()
    assert publish_draft(draft, ()) == (name, tables)
    drop_old_sandbox_schemas()
    assert name in {schema.name for schema in published_schemas()}
    make_old()
    drop_old_sandbox_schemas()
    assert name not in {schema.name for schema in published_schemas()}


def test_schemas_of_an_endpoint_without_sandboxing_go(stored) -> None:
    endpoint = stored("with a as (select 1 as x) select 1")
    endpoint.sandboxing = False
    save_endpoint(endpoint, [])
    age(endpoint, timezone.now() - timedelta(hours=1))
    drop_old_sandbox_schemas()
    assert schema_names(endpoint) == set()


def test_schemas_go_with_the_endpoint(stored, django_capture_on_commit_callbacks) -> None:
    endpoint = stored("with a as (select 1 as x) select 1")
    save_endpoint(endpoint, [])
    pk = endpoint.pk
    with django_capture_on_commit_callbacks(execute=True):
        delete_endpoints([endpoint])
    assert [schema for schema in published_schemas() if schema.endpoint_id == pk] == []


def test_leaves_a_schema_that_a_call_is_reading(stored, monkeypatch) -> None:
    monkeypatch.setattr(publishing, "LOCK_TIMEOUT", "100ms")
    endpoint = stored("with a as (select 1 as x) select 1")
    with psycopg.connect(**settings.LOGS_GATE) as gate:
        gate.execute("SET ROLE sandbox_reader")
        gate.execute(f"SELECT * FROM {sandbox_schema(endpoint)}.a")
        assert drop_schemas([sandbox_schema(endpoint)]) == 0
    assert drop_schemas([sandbox_schema(endpoint)]) == 1


def test_touches_no_schema_that_is_not_its_own(log_database) -> None:
    log_database.execute("CREATE SCHEMA sandbox_of_an_operator")
    try:
        drop_old_sandbox_schemas()
        names = "SELECT count(*) FROM pg_namespace WHERE nspname = 'sandbox_of_an_operator'"
        assert log_database.execute(names).fetchone() == (1,)
    finally:
        log_database.execute("DROP SCHEMA sandbox_of_an_operator")


def age(endpoint, moment) -> None:
    """Make the endpoint and its schemas look as if saved and published at this moment."""
    Endpoint.objects.filter(pk=endpoint.pk).update(updated_at=moment)
    with owner_connection() as connection:
        for name in schema_names(endpoint):
            comment = json.dumps({"definition": "aged", "published_at": moment.isoformat()})
            connection.execute(f"COMMENT ON SCHEMA {name} IS '{comment}'")
