"""A consumer's query sees the rows of its call's sandbox tables, and errors tell nothing but what it wrote itself."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from endpoints.access.secrets import Caller
from endpoints.calling import producing
from endpoints.calling.calls import run_endpoint
from endpoints.calling.query_requests import Call
from endpoints.defining.saving import save_endpoint
from endpoints.definition import PublishedTable, Version
from endpoints.errors import (
    ArgumentNotAllowed,
    EndpointError,
    InvalidParameters,
    InvalidSQL,
    QueryTimeout,
    QueryTooCostly,
    RequestTooLarge,
    SandboxDisabled,
    SandboxViolation,
    StoredQueryFailed,
)
from endpoints.guarantees import forget_answer
from endpoints.log_database.publishing import drop_schemas, publish_sandbox, sandbox_schema
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter
from tests.moments import now

pytestmark = pytest.mark.django_db
POISON = "a secret of globex"


@pytest.fixture
def rows(insert_rows) -> None:
    """Good rows of acme, and rows of globex on which careless predicates fail."""
    insert_rows(
        "edge_logs",
        [
            {"timestamp": now() - timedelta(minutes=n), "project": "acme", "id": f"a{n}", "event_message": f"{n + 1}"}
            | {"metadata": [{"ok": True}]}
            for n in range(3)
        ]
        + [
            {
                "timestamp": now() - timedelta(minutes=n),
                "project": "globex",
                "id": f"g{n}",
                "event_message": POISON,
                "metadata": [{"status": POISON, "n": 0}],
            }
            for n in range(200)
        ],
    )


def ask(sql, reference="logs.all", caller=None, **arguments):
    call = Call({"project": "acme", **arguments}, sandbox_sql=sql)
    return json.loads(run_endpoint(reference, call=call, caller=caller).outcome.body)["result"]


def test_sees_the_rows_of_its_project(rows) -> None:
    assert ask("select id from edge_logs order by id") == [{"id": "a0"}, {"id": "a1"}, {"id": "a2"}]
    assert ask("select count(*) as n from edge_logs", project="globex") == [{"n": 200}]
    assert ask("select count(*) as n from edge_logs", project="nobody") == [{"n": 0}]


def test_sees_the_rows_of_its_window(rows) -> None:
    since = (now() - timedelta(seconds=90)).isoformat()
    assert ask("select id from edge_logs order by id", iso_timestamp_start=since) == [{"id": "a0"}, {"id": "a1"}]


def test_what_leaves_the_calendar_of_bigquery_is_refused(rows) -> None:
    sql = "with t as (select id from logs.edge_logs where project = @project) select id from t"
    endpoint = Endpoint(name="test.calendar", sql=sql, sandboxing=True, sandbox_dialect="bigquery")
    save_endpoint(endpoint, [DeclaredParameter("project")])
    with pytest.raises(InvalidSQL, match="A date or time is out of range"):
        ask("select date_add(date '9999-12-31', interval 1 day) as d from t", "test.calendar")
    safe = ask("select safe.date_add(date '9999-12-31', interval 1 day) as d from t limit 1", "test.calendar")
    assert safe == [{"d": None}]


def test_newest_rows_come_first(rows) -> None:
    assert [row["id"] for row in ask("select id from edge_logs")] == ["a0", "a1", "a2"]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (
            "select length(translate(string_agg(a, ''), string_agg(b, ''), '')) from (select q.a, q.b from"
            " generate_series(1, 50) g, (select format('%1000s', '') as a, format('%1000s', 'b') as b) q) r",
            "operands of a function or operator are too large together",
        ),
        (
            "with a as (select format('%9999s', '') as v), b as (select v || v || v || v || v || v || v || v as v"
            " from a), c as (select v || v || v || v || v || v || v || v as v from b),"
            " d as (select v || v || v || v || v || v || v || v as v from c) select length(v) from d",
            "larger than the 4 MiB",
        ),
    ],
)
def test_tells_that_operands_are_too_large(rows, sql, reason) -> None:
    with pytest.raises(InvalidSQL) as caught:
        ask(sql)
    assert reason in caught.value.message
    assert "left(x, 1000)" in caught.value.details[0]["hint"]


@pytest.mark.parametrize("expression", ["format('%40000s', '')", "'a'::char(40000)", "format('%*s', 5, '')"])
def test_refuses_wide_padding(rows, expression) -> None:
    with pytest.raises(SandboxViolation, match=r"pads|maximum width"):
        ask(f"select {expression}")


def test_arguments_are_usable_by_name(rows) -> None:
    assert ask("select @project as p, @iso_timestamp_start as t", iso_timestamp_start="2025-06-02") == [
        {"p": "acme", "t": "2025-06-02T00:00:00.000000Z"}
    ]


def test_cuts_at_max_rows(rows) -> None:
    call = Call({"project": "acme"}, sandbox_sql="select x from generate_series(1, 5000) x order by x desc")
    outcome = run_endpoint("logs.all", call=call).outcome
    assert (outcome.row_count, outcome.truncated) == (1000, True)
    assert json.loads(outcome.body)["result"][:2] == [{"x": 5000}, {"x": 4999}]


def test_a_query_without_columns_and_one_with_the_wrappers_names(rows) -> None:
    assert ask('select 1 as result, 2 as "case", 3 as sum, 4 as octet_length') == [
        {"result": 1, "case": 2, "sum": 3, "octet_length": 4}
    ]
    assert ask("select result.id from edge_logs as result limit 1") == [{"id": "a0"}]


def test_redaction_reaches_sandbox_queries(rows) -> None:
    call = Call({"project": "acme"}, sandbox_sql="select 'from 203.0.113.7' as a", redact=True)
    assert run_endpoint("logs.all", call=call).outcome.body == b'{"result":[{"a":"from REDACTED"}]}'


def test_dates_and_chart_counts(rows) -> None:
    assert ask("select bucket from dates", "usage.api-counts", interval="minutely") == [{"bucket": "minute"}]
    sql = "select sum(total_rest_requests) as n, count(*) as m from chart_counts"
    assert ask(sql, "usage.api-counts", interval="daily") == [{"n": None, "m": 0}]


def test_an_invalid_regular_expression_as_argument_is_told_as_such(rows) -> None:
    with pytest.raises(InvalidParameters) as refusal:
        ask("select * from chart_counts", "usage.api-counts", interval="daily", project="(")
    assert refusal.value.details == ({"name": "project", "reason": "is not a valid regular expression"},)


def test_a_bound_access_token_sees_its_project_only(rows) -> None:
    caller = Caller(name="bound", prefix="0", bound_arguments={"project": "acme"})
    call = Call(sandbox_sql="select distinct event_message from edge_logs order by 1")
    body = run_endpoint("logs.all", call=call, caller=caller).outcome.body
    assert json.loads(body)["result"] == [{"event_message": str(n)} for n in (1, 2, 3)]
    with pytest.raises(ArgumentNotAllowed):
        ask("select 1", caller=caller, project="globex")


# --- Publishing on the way --------------------------------------------------------------------------------------------


def test_publishes_again_what_the_log_database_has_lost(rows) -> None:
    drop_schemas([sandbox_schema(Endpoint.objects.get(name="logs.all"))])
    assert len(ask("select id from edge_logs")) == 3


def test_publishes_a_version_that_never_was(rows) -> None:
    endpoint = Endpoint.objects.get(name="logs.all")
    tables = endpoint.sandbox_tables
    drop_schemas([sandbox_schema(endpoint)])
    Endpoint.objects.filter(pk=endpoint.pk).update(sandbox_tables=[])
    assert len(ask("select id from edge_logs")) == 3
    assert Endpoint.objects.get(pk=endpoint.pk).sandbox_tables == tables


def test_a_version_that_never_was_is_published_once(rows, monkeypatch: pytest.MonkeyPatch) -> None:
    published: list[int] = []

    def counted(endpoint: Version) -> tuple[PublishedTable, ...]:
        published.append(endpoint.version)
        return publish_sandbox(endpoint)

    monkeypatch.setattr(producing, "publish_sandbox", counted)
    Endpoint.objects.filter(name="logs.all").update(sandbox_tables=[])
    for _ in range(3):
        assert len(ask("select id from edge_logs")) == 3
    assert len(published) == 1


def test_a_version_that_cannot_be_published_is_the_operators_failure(db) -> None:
    endpoint = save_endpoint(Endpoint(name="test.broken", sql="select 1 as a"), [])
    Endpoint.objects.filter(pk=endpoint.pk).update(sandboxing=True)
    with pytest.raises(StoredQueryFailed):
        run_endpoint("test.broken", call=Call(sandbox_sql="select 1"))


# --- Errors -----------------------------------------------------------------------------------------------------------

FAILING = [
    ("select\n  event_mesage from edge_logs", 2, 3, "no column `event_mesage`", "Did you mean `event_message`?"),
    ("select id from edge_logs, auth_logs", 1, 8, "`id` could belong to more than one table", "table.column"),
    ("select 'a' || 'b' + 1", 1, 15, "cannot be read as the type", ""),
    ("select id, count(*) from edge_logs", 1, 8, "mixed at `id`", "GROUP BY"),
    ("select id from edge_logs where timestamp > 5", 1, 42, "fits the types of its arguments at `>`", "Cast"),
    ("select round(id) from edge_logs", 1, 8, "fits the types of its arguments at `round`", "Cast"),
    ("select id from edge_logs order by 9", 1, 35, "ORDER BY, GROUP BY or DISTINCT names", ""),
    ("select case when true then 1 else id end from edge_logs", None, None, "", ""),
    ("select 1 / (count(*) - count(*)) from edge_logs", None, None, "divides by zero", "nullif"),
    ("select id from edge_logs where id ~ ('(' || left(id, 0))", None, None, "regular expression is not valid", ""),
    ("select (event_message || 'x')::int from edge_logs", None, None, "cannot be read as the type", "casting"),
    ("select (event_message || '000000000000')::int from edge_logs", None, None, "out of the range", "numeric"),
    ("select (event_message || '-x')::timestamptz from edge_logs", None, None, "not a date or time", ""),
    ("select (select id from edge_logs)", None, None, "more than one row", "LIMIT 1"),
    ("select id from edge_logs limit -1", None, None, "LIMIT must not be negative", ""),
    ("select date_trunc(event_message, now()) from edge_logs", None, None, "does not accept", ""),
    ("select ('x{' || id)::jsonb -> 'a' from edge_logs", None, None, "cannot be read as the type", "casting"),
    ("select ln(0 * event_message::int) from edge_logs", None, None, "logarithm", ""),
    ("select sqrt(-1 * event_message::int) from edge_logs", None, None, "square root", ""),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "line", "column", "message", "hint"), FAILING)
def test_a_query_that_does_not_run_is_told_why_and_where(rows, sql, line, column, message, hint) -> None:
    with pytest.raises(InvalidSQL) as refusal:
        ask(sql)
    (detail,) = refusal.value.details
    assert message in detail["reason"]
    assert hint in detail.get("hint", "")
    if line is not None:
        assert (detail["line"], detail["column"]) == (line, column)
        assert refusal.value.message.startswith(f"Line {line}, column {column}: ")
    told = json.dumps(refusal.value.body("r"))
    for secret in (POISON, "globex", "logs_private", "sandbox_", "coalesce", "000000000000", "octet_length"):
        assert secret not in told


@pytest.mark.parametrize("sql", ["select 1 from pg_class", "select pg_sleep(1)", "select 1; select 2", "delete from x"])
def test_wall_1_stands_before_everything(rows, sql) -> None:
    with pytest.raises(SandboxViolation):
        ask(sql)


def test_is_refused_while_the_log_database_does_not_keep_its_guarantees(rows, log_database) -> None:
    forget_answer()
    log_database.execute("GRANT SELECT ON logs.edge_logs TO sandbox_reader")
    try:
        with pytest.raises(SandboxDisabled, match="refused at the moment"):
            ask("select 1 as x")
        assert run_endpoint("logs.all", call=Call({"project": "acme"})).outcome.row_count == 3
    finally:
        log_database.execute("REVOKE SELECT ON logs.edge_logs FROM sandbox_reader")
        forget_answer()
    assert ask("select 1 as x") == [{"x": 1}]


def test_a_query_over_the_length_limit(rows) -> None:
    with pytest.raises(RequestTooLarge):
        ask(f"select '{'x' * 20_000}'")


def test_the_length_limit_is_a_setting(rows, settings) -> None:
    settings.ENDPOINTS_SANDBOX_MAX_SQL_BYTES = 20
    assert ask("select 1 as x") == [{"x": 1}]
    with pytest.raises(RequestTooLarge):
        ask("select 1 as x, 2 as y")


# --- Side channels ----------------------------------------------------------------------------------------------------

# Each fails on every row of globex, and on none of acme.
PREDICATES = [
    "event_message::int > 0",
    "event_message::bool is not null or true",
    "1 / (length(event_message) - 18) < 5",
    "1 / (case when event_message like 'a secret%' then 0 else 1 end) = 1",
    "(metadata->0->>'status')::int is null",
    "1 / coalesce((metadata->0->>'n')::int, 1) = 1",
    "jsonb_path_match(metadata, '$[0].ok')",
    "sqrt(18 - length(event_message) - case when length(event_message) = 18 then 1 else 0 end) >= 0",
    "chr(1 + 1114111 * (length(event_message) / 18)) is not null",
    "date_trunc(case when length(event_message) > 9 then 'nonsense' else 'day' end, timestamp) is not null",
    "event_message ~ case when left(event_message, 1) = 'a' then '(' else 'x' end is not null",
    "(select event_message::int) > 0",
    "timestamp > 'epoch'::timestamptz + event_message::int * interval '1 second'",
]
SHAPES = [
    "select count(*) as n from edge_logs where {}",
    "select count(*) as n from edge_logs where id is not null and {}",
    "select count(*) as n from (select * from edge_logs where {}) q",
    "with c as not materialized (select * from edge_logs) select count(*) as n from c where {}",
    "select count(*) filter (where {}) as n from edge_logs",
    "select count(*) as n from edge_logs join (select 1 as one) o on {}",
]


@pytest.mark.parametrize("predicate", PREDICATES)
def test_no_predicate_is_tried_on_rows_of_another_project(rows, predicate) -> None:
    for shape in SHAPES:
        told = ask(shape.format(predicate))
        assert told[0]["n"] in (0, 3)
    with pytest.raises(InvalidSQL) as refusal:  # the predicate does fail where it is tried
        ask(SHAPES[0].format(predicate.replace(" or true", "")), project="globex")
    assert POISON not in json.dumps(refusal.value.body("r"))


def test_no_predicate_is_tried_on_rows_that_a_table_without_tenant_leaves_out(insert_rows) -> None:
    insert_rows("edge_logs", [{"timestamp": now(), "project": "p", "id": id_} for id_ in ("7", "poison")])
    # The condition of the table costs more than the consumer's, which PostgreSQL would therefore try first.
    slow = "with a as (select id from logs.edge_logs where md5(id) ~ ('^' || left(md5(@id), 9))) select id from a"
    endpoint = Endpoint(name="test.no-tenant", sql=slow, sandboxing=True)
    save_endpoint(endpoint, [DeclaredParameter("id", required=True)])
    assert ask("select id from a where id::int > 0", "test.no-tenant", id="7") == [{"id": "7"}]


# --- Resources --------------------------------------------------------------------------------------------------------

COSTLY = [
    "select count(*) from generate_series(1, 100000000000)",
    "select array_agg(x) from generate_series(1, 1000000000) x",
    "select count(*) from generate_series(1, 100000) a, generate_series(1, 100000) b, generate_series(1, 100000) c",
    "select max(a.x || b.x) from generate_series(1, 1000000) a(x), generate_series(1, 1000000) b(x)",
    "select a.x from generate_series(1, 10000000) a(x) order by md5(a.x::text)",
    r"select regexp_count(string_agg('a', '') || 'b', '^(.+)(.+)(.+)(.+)\4\3\2\1$') from generate_series(1, 300)",
    "select string_agg(md5(x::text), '') from generate_series(1, 100000000) x",
    "select replace(replace(replace(string_agg('x', ''), 'x', '{0}'), 'x', '{0}'), 'x', '{0}')"
    " from generate_series(1, 30000)".format("x" * 30),
    "select json_agg(a) from generate_series(1, 10000000) a",
    "select power(9.9, 100000::numeric) * power(9.9, x::numeric) from generate_series(1, 100000) x",
]


@pytest.mark.parametrize("sql", COSTLY)
def test_a_costly_query_ends_in_its_time_and_the_next_call_works(rows, sql) -> None:
    Endpoint.objects.filter(name="logs.all").update(statement_timeout_seconds=1)
    started = datetime.now(UTC)
    with pytest.raises(EndpointError) as end:
        ask(sql)
    assert isinstance(end.value, (InvalidSQL, QueryTimeout, QueryTooCostly))
    assert datetime.now(UTC) - started < timedelta(seconds=8)  # the second of the timeout, on a busy machine
    assert ask("select count(*) as n from edge_logs") == [{"n": 3}]


@pytest.mark.parametrize("depth", [30, 200, 2000])
def test_deep_nesting_is_refused_not_a_crash(rows, depth) -> None:
    with pytest.raises((SandboxViolation, InvalidSQL, RequestTooLarge)):
        ask(f"select {'(' * depth * 2}1{')' * depth * 2}")


def test_a_result_over_the_byte_budget_is_refused(rows, settings) -> None:
    settings.ENDPOINTS_SANDBOX_MAX_BYTES = 1024 * 1024
    kilobyte = "(select string_agg(md5(y::text), '') from generate_series(1, 32) y)"
    assert len(ask(f"select {kilobyte} as k, x from generate_series(1, 1000) x")) == 1000
    for sql in (
        f"select {kilobyte} as k, {kilobyte} as l, x from generate_series(1, 1000) x",
        "select string_agg(md5(y::text), '') from generate_series(1, 40000) y",
    ):
        with pytest.raises(InvalidSQL, match="The result is larger than 1 MiB"):
            ask(sql)
