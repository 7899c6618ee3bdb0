"""A CTE counts as filtered by tenant and time alone only where every part of it is understood."""

from __future__ import annotations

import pytest

from endpoints.models import Endpoint
from endpoints.sql.row_conditions import leaves_out_tenant_and_time_alone, order_by_output
from endpoints.sql.stored_queries import stored_tables

pytestmark = pytest.mark.sql

PLAIN = [
    "select * from edge_logs",
    "select t.id, t.metadata from logs.edge_logs as t where t.project = @project",
    "SELECT id FROM edge_logs t WHERE t.project=@project AND t.timestamp > @since AND timestamp <= 'infinity'",
    "select id from edge_logs where timestamp > coalesce(@since, '-infinity') order by timestamp desc",
    "select id from edge_logs where timestamp >= greatest(@since, coalesce(@x, '2025-01-01')) order by id, timestamp",
    'select "id" from "edge_logs" as "T" where "T"."timestamp" < @until order by "T"."id" asc nulls last',
    "select metadata -> 0 ->> 'level' as level, (1 + 2) * 3 as n from edge_logs -- all of them",
    "select case when metadata is null then 'x' else event_message end as m from earlier where project = @project",
]
OWN_CONDITIONS = [
    "",
    "select 1",
    "values (1)",
    "(select * from edge_logs)",
    "with x as (select 1) select * from x",
    "select * from edge_logs where area = @area",
    "select * from edge_logs where project = @area",
    "select * from edge_logs where project <> @project",
    "select * from edge_logs where project = @project and metadata -> 0 ->> 'area' = @area",
    "select * from edge_logs where project = @project or timestamp > @since",
    "select * from edge_logs where not timestamp > @since",
    "select * from edge_logs where (timestamp > @since)",
    "select * from edge_logs where timestamp = @since",
    "select * from edge_logs where timestamp between @since and @until",
    "select * from edge_logs where timestamp > now() - interval '1 day'",
    "select * from edge_logs where timestamp > @since::timestamptz",
    "select * from edge_logs where timestamp > event_message",
    "select * from edge_logs where timestamp > coalesce(other, @since)",
    "select * from edge_logs where timestamp > coalesce",
    "select * from edge_logs where timestamp > (select max(timestamp) from auth_logs)",
    "select * from edge_logs where timestamp > @since group by id",
    "select * from edge_logs where timestamp > @since limit 10",
    "select * from edge_logs order by timestamp limit 10",
    "select * from edge_logs order by timestamp offset 10",
    "select * from edge_logs order by lower(id)",
    "select * from edge_logs order by timestamp where project = @project",
    "select * from edge_logs having true",
    "select * from edge_logs union all select * from auth_logs",
    "select * from edge_logs where project = @project union all select * from auth_logs",
    "select * from edge_logs order by timestamp union all select * from auth_logs",
    "select * from edge_logs, auth_logs",
    "select * from edge_logs join auth_logs using (id)",
    "select * from edge_logs natural join auth_logs",
    "select * from edge_logs tablesample system (10)",
    "select * from (select * from edge_logs where area = 1) as t",
    "select * from generate_series(1, 3)",
    "select distinct id from edge_logs",
    "select count(*) from edge_logs",
    "select jsonb_array_elements(metadata) as e from edge_logs",
    "select (select max(id) from auth_logs) as m from edge_logs",
    "select id from edge_logs for update",
    "select 'unclosed from edge_logs",
    "select id from other.edge_logs",
    "select a is distinct from b from edge_logs",
]


@pytest.mark.parametrize("sql", PLAIN)
def test_tenant_and_time_window_alone(sql: str) -> None:
    assert leaves_out_tenant_and_time_alone(sql, tenant_parameter="project")


@pytest.mark.parametrize("sql", OWN_CONDITIONS)
def test_everything_else_has_conditions_of_its_own(sql: str) -> None:
    assert not leaves_out_tenant_and_time_alone(sql, tenant_parameter="project")


@pytest.mark.parametrize(("table", "plain"), [("logs.edge_logs", True), ("edge_logs", False), ('"edge_logs"', False)])
def test_what_an_earlier_cte_calls_project_may_be_anything(table: str, *, plain: bool) -> None:
    sql = f"select * from {table} where project = @project"
    assert leaves_out_tenant_and_time_alone(sql, tenant_parameter="project", earlier=["edge_logs"]) is plain


@pytest.mark.django_db
def test_the_shipped_log_tables_need_no_barrier() -> None:
    tables = stored_tables(Endpoint.objects.get(name="logs.all").sql)
    assert len(tables) == 9
    assert all(leaves_out_tenant_and_time_alone(table.sql, tenant_parameter="project") for table in tables)


@pytest.mark.parametrize(
    ("sql", "terms"),
    [
        ("select * from a order by timestamp desc", ('"timestamp" desc',)),
        ("select t.id, t.timestamp from a as t order by t.timestamp DESC NULLS LAST, t.id",
         ('"timestamp" desc nulls last', '"id"')),
        ('select "a""b" from t order by "a""b"', ('"a""b"',)),
        ("select id as id from a join b on true where x = 1 order by id", ('"id"',)),
        ("select * from a", ()),
        ("select * from a order by timestamp limit 3", ()),
        ("select * from a order by lower(id)", ()),
        ("select * from a order by 1", ()),
        ("select * from a order by id using >", ()),
        ("select date_trunc('hour', timestamp) as timestamp from a as t order by t.timestamp", ()),
        ("select other as id from a order by id", ()),
        ("select array_agg(id order by id) from a", ()),
        ("values (1) order by 1", ()),
        ("(select id from a order by id)", ()),
        ("select 'x", ()),
        ("select id from a order", ()),
        ("select id from a order by", ()),
        ("", ()),
    ],
)  # fmt: skip
def test_order_that_a_query_around_a_cte_can_repeat(sql: str, terms: tuple[str, ...]) -> None:
    assert order_by_output(sql) == terms
