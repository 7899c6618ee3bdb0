"""The emitted text on a real server: the same rows as the consumer's own text, and nothing used but what is allowed."""

from __future__ import annotations

import json
from random import Random

import pytest

from endpoints.sql.sandbox import SandboxTable, check_sandbox_query, selects
from logsources.allowed_functions import AGGREGATES, ALLOWED_FUNCTIONS, SET_RETURNING, SYNTAX_FUNCTIONS
from tests.endpoints.sql.sandbox.test_columns import OWN_NAMES
from tests.files import CASES
from tests.fuzz.generator import QueryGenerator
from tests.fuzz.mutations import mutated
from tests.fuzz.rewritten import rewrite_oracle
from tests.fuzz.sandbox import accepted, corpus

pytestmark = pytest.mark.sql

COLUMNS = ("id", "timestamp", "event_message", "metadata")
NAMES = ("edge_logs", "auth_logs", "database_logs", "function_logs", "function_edge_logs", "storage_logs")
TABLES = tuple(SandboxTable(name, COLUMNS) for name in NAMES)
CREATE_TABLES = "CREATE SCHEMA sandbox_rows; SET search_path = sandbox_rows;" + "".join(
    f"""
    CREATE TABLE {name} (
        id uuid, "timestamp" timestamptz NOT NULL, event_message text NOT NULL, metadata jsonb NOT NULL);
    INSERT INTO {name}
    SELECT md5('{name}' || n)::uuid, timestamptz '2025-01-01' + n * interval '7 minutes',
        (array['GET /rest 200 user17', 'PUT /auth 404 x', 'GET /x 500 y'])[1 + n % 3],
        jsonb_build_array(jsonb_build_object(
            'level', (array['info', 'error'])[1 + n % 2], 'execution_time_ms', n * 3 % 40, 'tags', array['a', 'b'],
            'request', jsonb_build_array(jsonb_build_object('path', '/p' || n % 4, 'method', 'GET',
                'headers', jsonb_build_array(jsonb_build_object('x_real_ip', '10.0.0.' || n % 3)))),
            'response', jsonb_build_array(jsonb_build_object(
                'status_code', 200 + n % 3 * 102, 'origin_time', n * 5 % 17))))
    FROM generate_series(1, 30) AS n;
    """
    for name in NAMES
)


def legit_cases():
    lines = (CASES / "legit.jsonl").read_text().splitlines()
    return [(case["id"], case["sql"]) for case in map(json.loads, lines)]


@pytest.fixture
def log_tables(log_database):
    with log_database.transaction(force_rollback=True):
        log_database.execute(CREATE_TABLES)
        yield log_database


@pytest.mark.django_db(databases=["default", "logs"])
def test_returns_the_rows_of_the_consumers_own_text(log_tables):
    compared = 0
    for case, sql in [*legit_cases(), *enumerate(OWN_NAMES)]:
        checked = check_sandbox_query(sql, tables=TABLES)
        expected = log_tables.execute(sql.rstrip().removesuffix(";").encode())
        got = log_tables.execute(checked.statement({}, max_rows=10_000).sql.encode())
        assert [column.name for column in got.description] == [column.name for column in expected.description], case
        rows, expected_rows = got.fetchall(), expected.fetchall()
        assert sorted(map(repr, rows)) == sorted(map(repr, expected_rows)), case
        compared += 1
    assert compared > 90


@pytest.mark.django_db(databases=["default", "logs"])
def test_uses_no_relation_and_no_function_beyond_the_allowed(log_database):
    random, texts = Random(1), corpus()
    generator = QueryGenerator(random, parameters=False)
    with rewrite_oracle(log_database) as oracle:
        for text in [*texts, *(generator.query_text() for _ in range(600))]:
            for query in (text, mutated(random, text, texts)):
                checked = accepted(query)
                if checked is not None and not checked.parameter_names:
                    assert oracle.complaints(checked.sql) == [], query
    assert oracle.judged > 200


@pytest.mark.django_db(databases=["default", "logs"])
def test_rewrite_oracle_sees_calls_in_disguise_when_the_rule_is_switched_off(log_database, monkeypatch):
    monkeypatch.setattr(selects, "require_known_columns", lambda reader: None)
    with rewrite_oracle(log_database) as oracle:
        for sql in (
            "select e.leak from edge_logs e",
            "select e.pg_typeof from edge_logs e",
            "select u.n from unnest(array['a']) u",
            "select q.leak from (select e.* as leak from edge_logs e) q",
            "with c as (select 1 as leak) select * from"
            " ((with c as (select 2 as x) select 1) order by (select c.leak from c)) q",
        ):
            (complaint,) = oracle.complaints(accepted(sql).sql)
            assert complaint.startswith("function ")


@pytest.mark.django_db(databases=["default", "logs"])
@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("select 1 from auth_user", "relation "),
        ("select pg_sleep(1)", "function "),
        ("select x.y from (select 1 as y) x, pg_class", "relation "),
        ("select leak(1)", "function "),
        ("select 1 from generate_series(1, 2) g where exists (select 1 from pg_proc)", "relation "),
    ],
)
def test_rewrite_oracle_sees(log_database, sql, found):
    with rewrite_oracle(log_database) as oracle:
        complaints = oracle.complaints(sql)
    assert complaints
    assert complaints[0].startswith(found)


@pytest.mark.django_db(databases=["default", "logs"])
def test_finds_no_dangerous_function_under_an_allowed_name(log_database):
    rows = log_database.execute(
        """
        SELECT proname, oid::regprocedure::text, prosecdef, provolatile, prokind, proretset,
            prosrc ~ 'setseed|nextval|lo_|pg_read' AS suspicious
        FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND proname = ANY(%s)
        """,
        [sorted(ALLOWED_FUNCTIONS.union(*SYNTAX_FUNCTIONS.values()))],
    ).fetchall()
    assert {row[0] for row in rows if row[3] == "v"} <= {"clock_timestamp", "gen_random_uuid", "random"}
    assert not [row for row in rows if row[2] or row[6]]
    assert {row[0] for row in rows if row[5]} <= SET_RETURNING.keys()
    ranks = {"rank", "dense_rank", "percent_rank", "cume_dist"}
    assert {row[0] for row in rows if row[4] == "a"} <= AGGREGATES.names | ranks


@pytest.mark.django_db(databases=["default", "logs"])
def test_maps_postgresqls_error_position_to_the_consumers_text(log_tables):
    sql = "select id, -- the id\n  nothing from edge_logs"
    checked = check_sandbox_query(sql, tables=TABLES)
    with pytest.raises(Exception, match="nothing") as raised, log_tables.transaction():
        log_tables.execute(checked.statement({}, max_rows=10).sql.encode())
    position = int(raised.value.diag.statement_position)
    assert checked.original_offset(position - 1) == sql.index("nothing")
