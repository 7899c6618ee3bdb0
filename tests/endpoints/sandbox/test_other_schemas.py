"""A session reads the sandbox schema it was armed for and no other, should the checker let another's name through.

Names of schemas can be had without a catalog: `16384::regnamespace::text`, and `::regclass` for each view. So the
texts here simply know them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from endpoints.calling.prepared_queries import sandbox_session
from endpoints.defining.saving import save_endpoint
from endpoints.log_database.execution import StatementFailed, run_statement
from endpoints.log_database.publishing import drop_schemas, publish_draft, published_schemas, sandbox_schema
from endpoints.models import Endpoint
from endpoints.results.outcomes import Statement
from endpoints.sql.parameters import DeclaredParameter

pytestmark = [pytest.mark.django_db, pytest.mark.sql]

NOW = datetime(2025, 6, 2, 12, tzinfo=UTC)
PROJECT = DeclaredParameter("project", required=True)
EVERYTHING = (
    "with a as (select id, project, event_message from edge_logs), b as (select count(*) as n from a),"
    " c as (select id, event_message from edge_logs union all select id, event_message from auth_logs),"
    " d as (select max(event_message) as m from edge_logs),"
    " e as (select 'stored' as s), f as (select id from a order by id) select @project, n from b"
)
# {} is the other endpoint's schema; each would tell of its rows.
FOREIGN = [
    "select event_message from {}.a",
    "select event_message from {}.c",
    "select n from {}.b",
    "select m from {}.d",
    "select s from {}.e",
    "select id from {}.f limit 1",
    "select 1 from {}.a limit 1",
    "select x.id from {}.a as x join own as y on true",
    "select x.event_message from own as y, lateral (select event_message from {}.c where y.id is not null) as x",
    "select o.id from own as o where exists (select from {}.a)",
    "select y.id from own as o join {}.f as y on true",
    "select event_message from {}.a where event_message::int = 1",
    "select sum(n) from (select n from {}.b union all select n from {}.b) as x where n > 0 having count(*) > 0",
    "with x as materialized (select * from {}.a) select id from x",
    "select (select max(id) from {}.a) as m from own where (select max(id) from {}.a) is not null",
    "select id from own where id in (select id from {}.a where project = 'globex') or (select count(*) from {}.a) > 0",
    "select m from (select max(event_message) as m from {}.a) as x where m is not null",
]


@pytest.fixture
def endpoints(log_database: Any, insert_rows: Any) -> Iterator[tuple[Endpoint, Endpoint]]:
    """One endpoint that shows acme's rows, another one that shows every project's."""
    for table in ("edge_logs", "auth_logs"):
        insert_rows(table, [message("acme", "ours"), message("globex", "theirs")])
    own = save_endpoint(
        Endpoint(
            name="test.own",
            sql="with own as (select * from edge_logs where project = @project) select * from own",
            tenant_parameter="project",
            sandboxing=True,
        ),
        [PROJECT],
    )
    other = save_endpoint(Endpoint(name="test.other", sql=EVERYTHING, sandboxing=True), [PROJECT])
    yield own, other
    drop_schemas(schema.name for schema in published_schemas() if schema.endpoint_id in (own.pk, other.pk))


def message(project: str, text: str) -> dict[str, Any]:
    return {"project": project, "timestamp": NOW, "event_message": text, "id": text}


def read(endpoint: Endpoint, sql: str, *, schema: str = "") -> list[tuple[Any, ...]]:
    session = sandbox_session(endpoint, schema or sandbox_schema(endpoint), {"project": "acme"})
    return list(run_statement(Statement(sql), session, max_rows=100).rows)


@pytest.mark.parametrize("sql", FOREIGN)
def test_another_endpoints_views_show_nothing(endpoints: tuple[Endpoint, Endpoint], sql: str) -> None:
    own, other = endpoints
    assert read(own, sql.replace("{}", sandbox_schema(other))) == []


@pytest.mark.parametrize("sql", [sql for sql in FOREIGN if "own" not in sql and "::int" not in sql])
def test_its_own_session_is_shown_them(endpoints: tuple[Endpoint, Endpoint], sql: str) -> None:
    _, other = endpoints
    assert read(other, sql.replace("{}", sandbox_schema(other))) != []


def test_the_own_views_show_their_rows(endpoints: tuple[Endpoint, Endpoint]) -> None:
    own, other = endpoints
    assert read(own, "select event_message from own") == [("ours",)]
    assert read(other, "select n from b") == [(2,)]


def test_an_older_version_of_the_endpoint_shows_nothing_either(endpoints: tuple[Endpoint, Endpoint]) -> None:
    own, _ = endpoints
    older = sandbox_schema(own)
    own.sql = "with own as (select id from edge_logs where project = @project and false) select id from own"
    save_endpoint(own, [PROJECT])
    assert read(own, f"select id from {older}.own") == []


def test_a_draft_is_read_by_its_own_session_alone(endpoints: tuple[Endpoint, Endpoint]) -> None:
    own, _ = endpoints
    draft, _ = publish_draft(own, own.parameters_of_version)
    assert read(own, "select event_message from own", schema=draft) == [("ours",)]
    assert read(own, f"select event_message from {draft}.own") == []


@pytest.mark.parametrize("path", ["{other}", "{own}, {other}", ""])
@pytest.mark.parametrize("call", ["set_config('search_path', '{path}', true)", "current_schema()"])
def test_no_query_arms_its_session_anew(endpoints: tuple[Endpoint, Endpoint], call: str, path: str) -> None:
    own, other = endpoints
    arming = call.replace("{path}", path.format(own=sandbox_schema(own), other=sandbox_schema(other)))
    with pytest.raises(StatementFailed) as failure:
        read(own, f"select {arming}, id from {sandbox_schema(other)}.a")
    assert failure.value.sqlstate == "42501"


def test_a_session_armed_for_no_schema_reads_none(endpoints: tuple[Endpoint, Endpoint]) -> None:
    own, _ = endpoints
    assert read(own, f"select id from {sandbox_schema(own)}.own", schema="pg_catalog") == []
