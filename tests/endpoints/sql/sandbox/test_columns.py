"""Attribute notation is a call in disguise: `o.a` passes only where `a` surely is a column of every possible `o`."""

from __future__ import annotations

import pytest

from endpoints.errors import SandboxViolation
from endpoints.sql.sandbox import SandboxTable, check_sandbox_query

TABLES = (
    SandboxTable("edge_logs", ("id", "timestamp", "event_message", "metadata")),
    SandboxTable("auth_logs", ("id", "timestamp", "event_message", "metadata")),
)
# A derived table or a common table named like a table inside it.
OWN_NAMES = (
    "select count(*) c from (select t.id from edge_logs t, jsonb_array_elements(t.metadata) m) t",
    "select count(*) c from edge_logs e, (select t.id from edge_logs t, jsonb_array_elements(t.metadata) m) t",
    "select count(*) c from auth_logs a join (select t.id from edge_logs t join edge_logs u on t.metadata"
    " = u.metadata) t on a.id = t.id",
    "select count(*) c from edge_logs e, lateral (select t.id from edge_logs t join edge_logs u on t.metadata"
    " = u.metadata where e.id = t.id) t",
    "select count(*) c from (select t.id from (select t.id, t.event_message from edge_logs t join edge_logs u"
    " on t.metadata = u.metadata) t join edge_logs u on t.event_message = u.event_message) t",
    "with t as (select t.id from edge_logs t, jsonb_array_elements(t.metadata) m) select count(*) c from t",
    "select count(*) c from (with t as (select t.id from edge_logs t join edge_logs u on t.metadata ="
    " u.metadata) select t.id from t join edge_logs u on t.id = u.id) t",
    "select (select count(*) from jsonb_array_elements(t.metadata) m, (select 1 as x) t) c from edge_logs t",
    "select count(*) c from (select t.id from edge_logs t, lateral (select t.metadata) m union all"
    " select t.id from auth_logs t, lateral (select t.metadata) m) t",
)


@pytest.mark.parametrize(
    "sql",
    [
        "select e.id from edge_logs e",
        "select edge_logs.id from edge_logs",
        "select e.x, e.y from edge_logs as e(x, y)",
        "select q.n from (select 1 as n) q",
        "select q.count from (select count(*) from edge_logs) q",
        "select q.id, q.timestamp from (select id::text, e.timestamp from edge_logs e) q",
        "select q.id from (select * from edge_logs) q",
        "select q.id, q.v from (select e.*, 1 as v from edge_logs e) q",
        "with c as (select id from edge_logs) select c.id from c",
        "with c(a) as (select id from edge_logs) select d.a from c d",
        "select c.id from (select id from edge_logs union select 1 as x) c",
        "select g.g from generate_series(1, 2) g",
        "select kv.key, kv.value from edge_logs, jsonb_each(metadata->0) kv",
        "select x.value from edge_logs, jsonb_array_elements(metadata) x",
        "select x.m from edge_logs, jsonb_array_elements(metadata) x(m)",
        "select u.v, u.n from unnest(array['a']) with ordinality as u(v, n)",
        "select r.a from edge_logs, jsonb_to_recordset(metadata) as r(a int, b text)",
        # The inner t is the one, though the outer t has no such column.
        "select t.m from (select t.metadata as m from edge_logs t) t",
        "select 1 from edge_logs e where exists (select 1 from auth_logs a where a.id = e.id)",
        "select e.id from edge_logs e, lateral (select e.id as x) l where l.x is not null",
        "(select e.id from edge_logs e) order by e.id",
        # FROM shows a query in it only items that stand before: never the item that the query is.
        *OWN_NAMES,
        "select count(e.*), (e).* from edge_logs e group by e.id",
        "select a.id from edge_logs a join auth_logs b using (id) where b.id = a.id",
    ],
)
def test_accepts_sure_columns(sql):
    check_sandbox_query(sql, tables=TABLES)


@pytest.mark.parametrize(
    "sql",
    [
        "select e.pg_typeof from edge_logs e",
        "select e.ctid from edge_logs e",
        "select (e).id from edge_logs e",
        "select (e.metadata).pg_typeof from edge_logs e",
        "select ((e)).pg_typeof from edge_logs e",
        "select (select e).pg_typeof from edge_logs e",
        "select (array[e])[1].pg_typeof from edge_logs e",
        "select to_jsonb(e).pg_typeof from edge_logs e",
        "select e.id from edge_logs as f",
        "select u.pg_typeof from unnest(array['a']) u",
        # unnest of rows has their columns and none called like the alias; several arrays have "unnest" twice.
        "select pg_typeof.pg_typeof from unnest(array(select e from edge_logs e)) pg_typeof",
        "select pg_typeof.pg_typeof from unnest(array[1], array[2]) pg_typeof",
        # jsonb_array_elements names its column "value", whatever the alias.
        "select pg_typeof.pg_typeof from jsonb_array_elements('[]') pg_typeof",
        # The label of a star does not exist.
        "select q.pg_typeof from (select e.* as pg_typeof from edge_logs e) q",
        "select q.pg_typeof from (select (e.*) as pg_typeof from edge_logs e) q",
        "select q.pg_typeof from (select (e).* pg_typeof from edge_logs e) q",
        # A column of another item, of an outer item that is not meant, of a later branch of a union.
        "with u as (select 1 as pg_typeof) select v.pg_typeof from u, edge_logs v",
        "select 1 from (select 1 as pg_typeof) c where exists (select c.pg_typeof from edge_logs c)",
        "select c.pg_typeof from (select id from edge_logs union select 1 as pg_typeof) c",
        # A LATERAL item may mean the outer or the inner one, so both must have the column.
        "select (select l.x from edge_logs c, lateral (select c.pg_typeof as x) l) from (select 1 as pg_typeof) c",
        # An item that stands before the query, or on one side of its join, is seen.
        "select 1 from edge_logs t, lateral (select t.pg_typeof as x) l, (select 1 as pg_typeof) t",
        "select 1 from edge_logs t join (select 1 as pg_typeof) u on t.pg_typeof is null",
        "select 1 from edge_logs t, lateral (select u.x from (select t.pg_typeof as x) u) t2, (select 1 pg_typeof) t",
        "select 1 from (select t.pg_typeof from edge_logs t, lateral (select 1 as pg_typeof) u) t",
        "select t.pg_typeof from (select 1 as x) t, (select (select t.pg_typeof from edge_logs t) as pg_typeof) u",
        "select (select count(*) from jsonb_array_elements(t.pg_typeof) m, (select 1 pg_typeof) t) from edge_logs t",
        # PostgreSQL reads this ORDER BY with the WITH list of the query in brackets.
        "with c as (select 1 as pg_typeof) select * from"
        " ((with c as (select 2 as x) select 1) order by (select c.pg_typeof from c)) q",
        "select 1 union select 2 order by (select e.id)",
        "select j.id from (edge_logs e join auth_logs a using (id)) j",
        "select j.id from edge_logs e join auth_logs a using (id) as j",
        "select q.case from (select case when true then 1 end) q",
        "select edge_logs.id.x from edge_logs",
    ],
)
def test_refuses_what_may_be_a_call(sql):
    with pytest.raises(SandboxViolation):
        check_sandbox_query(sql, tables=TABLES)


@pytest.mark.parametrize(
    "sql",
    [
        "select * from a",
        "with a as (select * from b), b as (select 1) select * from a",
        "with a as (select * from a) select * from a",
        "select (with a as (select 1 as n) select n from a), (select count(*) from a)",
        "with x as (with a as (select 1) select * from a) select * from x, a",
        "(with a as (select 1) select * from a) union select * from a",
        "select * from pg_tables",
    ],
)
def test_refuses_relations_out_of_scope(sql):
    # A sandbox table of this name could not be reached: PostgreSQL would take the one in pg_catalog.
    tables = (*TABLES, SandboxTable("pg_tables", ("id",)))
    with pytest.raises(SandboxViolation) as refusal:
        check_sandbox_query(sql, tables=tables)
    assert "is not a table" in refusal.value.message
