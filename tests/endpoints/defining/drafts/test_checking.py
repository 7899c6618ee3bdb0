"""A draft is checked as typed: every problem at its place, nothing saved, nothing run."""

from __future__ import annotations

import uuid
from typing import Any

import psycopg
import pytest
from django.core.exceptions import ValidationError
from django.db import connections

from endpoints.defining.drafts import Draft, DraftReport, check_draft
from endpoints.defining.saving import save_endpoint
from endpoints.errors import DatabaseUnavailable
from endpoints.log_database.publishing import published_schemas
from endpoints.models import Endpoint
from endpoints.results.outcomes import Column
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from logsources.databases import owner_connection

pytestmark = [pytest.mark.django_db, pytest.mark.sql]
PROJECT = DeclaredParameter("project", required=True)


def drafted(sql: str, *parameters: DeclaredParameter, **settings: Any) -> Draft:
    return Draft(**{"name": "test.draft", "sql": sql, "parameters": parameters, **settings})


def told(report: DraftReport) -> list[tuple[str, str, int | None, int | None]]:
    """Severity, field, line and column of each problem."""
    return [
        (one.severity.value, one.field, one.place.line if one.place else None, one.place.column if one.place else None)
        for one in report.problems
    ]


@pytest.mark.parametrize("name", ["logs.all", "usage.api-counts"])
def test_the_shipped_endpoints_have_no_problem(name: str) -> None:
    saved = Endpoint.objects.get(name=name)
    report = check_draft(
        Draft(
            sql=saved.sql,
            parameters=saved.parameters_of_version,
            endpoint_id=saved.pk,
            name=saved.name,
            tenant_parameter=saved.tenant_parameter,
            sandboxing=True,
            default_sandbox_table=saved.default_sandbox_table,
        )
    )
    assert report.problems == ()
    assert report.ok
    assert [{"name": column.name, "type": column.type} for column in report.columns or ()] == saved.result_columns
    assert [table.to_json()["name"] for table in report.sandbox_tables] == [
        table["name"] for table in saved.sandbox_tables or [t.to_json() for t in report.sandbox_tables]
    ]


FAULTS = [
    ("SELECT 'open", ("error", "sql", 1, 8), "never closed"),
    ("SELECT 1 AS a;\nSELECT 2", ("error", "sql", 1, 14), "a second statement"),
    ("\n  DELETE FROM edge_logs", ("error", "sql", 2, 3), "SELECT or WITH"),
    ("SELECT (1 AS a", ("error", "sql", 1, 8), "never closed"),
    ("SELECT $1 AS a", ("error", "sql", 1, 8), "write @name"),
    (
        "SELECT id,\n  nothing\nFROM edge_logs WHERE timestamp > now()",
        ("error", "sql", 2, 3),
        '"nothing" does not exist',
    ),
    ("SELECT 'ü🦊' AS a, nothing", ("error", "sql", 1, 19), '"nothing" does not exist'),
    ("SELECT rolname FROM pg_authid", ("error", "sql", None, None), "permission denied for table pg_authid"),
    ("SELECT event_mesage FROM edge_logs", ("error", "sql", 1, 8), "Perhaps you meant to reference"),
    ("", ("error", "sql", None, None), "cannot be blank"),
    ("   ", ("error", "sql", 1, 1), "there is no query"),
    ("-- nothing\n", ("error", "sql", 1, 1), "there is no query"),
    ("SELECT '\x00'", ("error", "sql", 1, 9), "NUL"),
]


@pytest.mark.parametrize(("sql", "expected", "message"), FAULTS)
def test_a_fault_in_the_sql_is_told_at_its_place(sql: str, expected: tuple[Any, ...], message: str) -> None:
    report = check_draft(drafted(sql))
    assert told(report) == [expected]
    assert message in report.problems[0].message
    assert not report.ok
    assert report.columns is None


def test_every_problem_is_told_at_once() -> None:
    report = check_draft(
        drafted(
            "SELECT @level AS a,\n  @missing AS b, nothing",
            DeclaredParameter("unused"),
            DeclaredParameter("level", type=ParameterType.INTEGER, minimum="9", maximum="1"),
            name="has space",
            tenant_parameter="project",
            max_rows=0,
            not_numbers=frozenset({"statement_timeout_seconds"}),
            planner_settings="sorted",
        )
    )
    assert sorted(told(report), key=str) == sorted(
        [
            ("error", "name", None, None),
            ("error", "max_rows", None, None),
            ("error", "statement_timeout_seconds", None, None),
            ("error", "planner_settings", None, None),
            ("error", "tenant_parameter", None, None),
            ("error", "parameters", None, None),
            ("error", "parameters", 1, 8),
            ("error", "sql", 2, 18),
            ("warning", "parameters", 2, 3),
        ],
        key=str,
    )


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        (DeclaredParameter("a", pattern="x" * 501), "500 characters"),
        (DeclaredParameter("a", type=ParameterType.TEXT_LIST, default=["x", "y"]), "a default is one text"),
        (DeclaredParameter("a", type=ParameterType.NUMBER, minimum="0." + "0" * 40 + "1"), "40 characters"),
    ],
)
def test_what_does_not_fit_into_a_saved_declaration_is_told(parameter: DeclaredParameter, message: str) -> None:
    (problem,) = check_draft(drafted("SELECT @a AS a", parameter)).problems
    assert (problem.field, problem.parameter) == ("parameters", "a")
    assert message in problem.message


def test_errors_come_before_warnings() -> None:
    report = check_draft(drafted("SELECT @b AS b,\n@a AS a, nothing"))
    assert told(report) == [
        ("error", "sql", 2, 10),
        ("warning", "parameters", 1, 8),
        ("warning", "parameters", 2, 1),
    ]


def test_a_name_that_is_taken_is_told_and_ones_own_is_not() -> None:
    other = Endpoint.objects.get(name="logs.all")
    assert told(check_draft(drafted("SELECT 1 AS a", name="logs.all"))) == [("error", "name", None, None)]
    assert check_draft(drafted("SELECT 1 AS a", name="logs.all", endpoint_id=other.pk)).ok
    assert not check_draft(drafted("SELECT 1 AS a", name="logs.all", endpoint_id=uuid.uuid4())).ok


def test_parameters_are_listed_as_used_with_a_guess() -> None:
    sql = "SELECT id FROM edge_logs\nWHERE project = @project AND timestamp >= @since LIMIT @n"
    report = check_draft(drafted(sql, PROJECT, DeclaredParameter("since", type=ParameterType.TIMESTAMP)))
    assert [(use.name, use.guessed_type) for use in report.parameters] == [
        ("project", ParameterType.TEXT),
        ("since", ParameterType.TIMESTAMP),
        ("n", ParameterType.INTEGER),
    ]
    # Undeclared is text, and a text is no number of rows.
    assert "declare it as integer" in report.problems[0].message


def test_the_result_columns_have_their_types() -> None:
    report = check_draft(drafted("SELECT 1.5::numeric(4,1) AS price, '{}'::jsonb AS m, @a AS a"))
    assert report.columns == (Column("price", "numeric(4,1)"), Column("m", "jsonb"), Column("a", "text"))
    assert report.ok  # an undeclared parameter is no error


SANDBOX = "WITH a AS (SELECT @project AS p),\n b AS (SELECT 1 AS x)\nSELECT 1 AS x FROM a"


def test_the_sandbox_tables_are_those_that_would_be_published(log_database: psycopg.Connection[Any]) -> None:
    report = check_draft(drafted(SANDBOX, PROJECT, sandboxing=True))
    made = published_schemas()
    assert [(table.name, table.columns) for table in report.sandbox_tables] == [
        ("a", (Column("p", "text"),)),
        ("b", (Column("x", "integer"),)),
    ]
    assert check_draft(drafted(SANDBOX, PROJECT, sandboxing=True)) == report
    assert published_schemas() == made


SANDBOX_FAULTS: list[tuple[str, dict[str, Any], tuple[Any, ...], str]] = [
    ("SELECT 1 AS a", {}, ("error", "sql", 1, 1), "begins with WITH"),
    ("WITH RECURSIVE a AS (SELECT 1 AS x) SELECT x FROM a", {}, ("error", "sql", 1, 6), "RECURSIVE"),
    ("WITH a AS (SELECT 1 AS x),\n pg_b AS (SELECT 1 AS y)\nSELECT x FROM a", {}, ("error", "sql", 2, 2), "pg_"),
    ("WITH a AS (SELECT 1 AS x, 2 AS x)\nSELECT 1 AS y FROM a", {}, ("error", "sql", 1, 6), "more than once"),
    (
        "WITH a AS (SELECT 1 AS x),\n b AS (SELECT timeofday() AS y)\nSELECT x FROM a",
        {},
        ("error", "sql", 2, 2),
        "permission denied for function timeofday",
    ),
    (SANDBOX, {"default_sandbox_table": "c"}, ("error", "default_sandbox_table", None, None), "its CTEs are a, b"),
]


@pytest.mark.parametrize(("sql", "fields", "expected", "message"), SANDBOX_FAULTS)
def test_what_cannot_be_a_sandbox_table_is_told(
    sql: str, fields: dict[str, Any], expected: tuple[Any, ...], message: str
) -> None:
    parameters = (PROJECT,) if "@project" in sql else ()
    report = check_draft(drafted(sql, *parameters, sandboxing=True, **fields))
    assert told(report) == [expected]
    assert message in report.problems[0].message


UNBOUNDED = [
    ("SELECT id FROM edge_logs", 1, 16),
    ("SELECT id\nFROM logs.edge_logs AS t WHERE t.project = 'a' ORDER BY t.timestamp DESC LIMIT 10", 2, 11),
    ("SELECT id FROM edge_logs WHERE date_trunc('day', timestamp) = @day::timestamptz", 1, 16),
    ("SELECT id FROM edge_logs WHERE timestamp::date = '2025-06-02'", 1, 16),
    ("SELECT id FROM edge_logs WHERE @s IS NULL OR timestamp > @s::timestamptz", 1, 16),
    ("WITH edge_logs AS (\nSELECT * FROM logs.edge_logs) SELECT id FROM edge_logs", 2, 20),
]


@pytest.mark.parametrize(("sql", "line", "column"), UNBOUNDED)
def test_a_log_table_read_without_a_time_bound_is_a_warning(sql: str, line: int, column: int) -> None:
    report = check_draft(drafted(sql))
    bounds = [one for one in report.problems if one.field == "sql"]
    assert [(one.severity.value, one.place and (one.place.line, one.place.column)) for one in bounds] == [
        ("warning", (line, column))
    ]
    assert "logs.edge_logs is read without a time range" in bounds[0].message
    assert report.ok


BOUNDED = [
    "SELECT id FROM edge_logs WHERE timestamp > @s::timestamptz",
    "SELECT id FROM edge_logs WHERE timestamp > coalesce(@s::timestamptz, '-infinity')",
    "SELECT id FROM edge_logs WHERE timestamp >= now() - interval '1 hour' AND project = @p",
    "SELECT id FROM edge_logs WHERE timestamp BETWEEN '2025-06-02' AND '2025-06-03'",
    "SELECT id FROM edge_logs WHERE @s::timestamptz < timestamp",
    "SELECT id FROM edge_logs WHERE timestamp = any(array['2025-06-02'::timestamptz])",
    "WITH d AS (SELECT now() AS s) SELECT id FROM edge_logs t WHERE t.timestamp >= (SELECT s FROM d)",
    "SELECT 1 AS a",
]


@pytest.mark.parametrize("sql", BOUNDED)
def test_a_time_bound_satisfies(sql: str) -> None:
    assert [one for one in check_draft(drafted(sql)).problems if one.field == "sql"] == []


def test_checking_saves_nothing_and_runs_nothing() -> None:
    report = check_draft(drafted("SELECT pg_sleep(60) AS a", statement_timeout_seconds=1))
    assert report.ok
    assert not Endpoint.objects.filter(name="test.draft").exists()


def test_what_can_be_saved_is_what_has_no_error() -> None:
    draft = drafted(SANDBOX, PROJECT, sandboxing=True, tenant_parameter="project")
    assert check_draft(draft).ok
    assert save_endpoint(draft.endpoint(), draft.parameters).version == 1


def test_a_log_database_that_does_not_answer_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connections["logs"].settings_dict, "HOST", "127.0.0.1")
    monkeypatch.setitem(connections["logs"].settings_dict, "PORT", "1")
    with pytest.raises(psycopg.OperationalError):
        owner_connection()
    with pytest.raises(DatabaseUnavailable):
        check_draft(drafted("SELECT 1 AS a"))


# --- Pages ------------------------------------------------------------------------------------------------------------
IN_PAGES = "SELECT t.timestamp, t.id, t.metadata FROM edge_logs AS t WHERE t.timestamp > @since ORDER BY t.id"
SINCE = DeclaredParameter("since", ParameterType.TIMESTAMP)


@pytest.mark.parametrize(
    "order", ["", "timestamp desc, id desc", "id, timestamp asc nulls first", "timestamp not null, id"]
)
def test_an_order_of_pages_over_the_result_has_no_problem(order: str) -> None:
    assert check_draft(drafted(IN_PAGES, SINCE, page_order=order)).problems == ()


@pytest.mark.parametrize(
    ("order", "sql", "message"),
    [
        ("timestamp down", IN_PAGES, "not a column with its direction"),
        ("stamp desc, id", IN_PAGES, "no column stamp; its columns are timestamp, id, metadata"),
        ("metadata, id", IN_PAGES, "metadata, which is jsonb"),
        ("id", "SELECT 'a' AS id, 'b' AS id", "2 columns called id"),
        ("id, timestamp", f"{IN_PAGES}\nOFFSET 5", "Line 2, column 1 of the query: pages take the place"),
        ("id, timestamp", f"{IN_PAGES} LIMIT @rows::int", "LIMIT and a number"),
        ("size", "SELECT @page_size AS size", "call it something else"),
    ],
)
def test_an_order_that_gives_no_pages_is_told(order: str, sql: str, message: str) -> None:
    names = [DeclaredParameter(name) for name in ("rows", "page_size") if f"@{name}" in sql]
    parameters = [*([SINCE] if "@since" in sql else []), *names]
    errors = [one for one in check_draft(drafted(sql, *parameters, page_order=order)).problems if one.is_error]
    assert {one.field for one in errors} - {"sql"} == {"page_order"}
    assert any(message in one.message for one in errors)


def test_an_order_that_may_not_tell_rows_apart_is_a_warning() -> None:
    report = check_draft(drafted(IN_PAGES, SINCE, page_order="timestamp desc"))
    assert told(report) == [("warning", "page_order", None, None)]
    assert "make every row different" in report.problems[0].message
    assert report.ok


def test_an_endpoint_whose_order_gives_no_pages_is_not_saved() -> None:
    with pytest.raises(ValidationError) as refusal:
        save_endpoint(Endpoint(name="test.unsaved", sql=IN_PAGES, page_order="stamp"), [SINCE])
    assert list(refusal.value.message_dict) == ["page_order"]
    assert not Endpoint.objects.filter(name="test.unsaved").exists()


BOUNDED = "SELECT id FROM edge_logs WHERE timestamp > now() AND "
TYPES: list[tuple[str, ParameterType | None]] = [
    ("(metadata -> 0 ->> 'status_code')::int >= @a", ParameterType.INTEGER),
    ("@a <= (metadata -> 0 ->> 'status_code')::int", ParameterType.INTEGER),
    ("(@a IS NULL OR (metadata -> 0 ->> 'status_code')::int >= @a)", ParameterType.INTEGER),
    ("length(event_message) BETWEEN 1 AND @a", ParameterType.INTEGER),
    ("(metadata -> 0 ->> 'ms')::numeric > @a", ParameterType.NUMBER),
    ("timestamp > coalesce(@a, now() - interval '1 day')", ParameterType.TIMESTAMP),
    ("timestamp::date = @a", ParameterType.DATE),
    ("timestamp > now() - @a * interval '1 minute'", ParameterType.NUMBER),
    ("CASE WHEN @a THEN true ELSE false END", ParameterType.BOOLEAN),
    ("id = @a", ParameterType.TEXT),
    ("project = @a", ParameterType.TEXT),
    ("project = ANY(@a)", ParameterType.TEXT_LIST),
    ("project = @a AND @a::int > 1", ParameterType.TEXT),
    ("metadata @> @a::jsonb", None),
    ("coalesce(@a) IS NULL", ParameterType.TEXT),
    ("(@a = @a OR (metadata -> 0 ->> 'n')::int = @a)", ParameterType.TEXT),
]


@pytest.mark.parametrize(("condition", "expected"), TYPES)
def test_postgresql_tells_the_type_of_a_parameter(condition: str, expected: ParameterType | None) -> None:
    (use,) = check_draft(drafted(BOUNDED + condition)).parameters
    assert use.guessed_type == expected
    declared = DeclaredParameter("a", expected or ParameterType.TEXT)
    if condition != TYPES[-1][0]:
        assert check_draft(drafted(BOUNDED + condition, declared)).problems == ()


def test_what_an_undeclared_parameter_must_be_declared_as_is_told_instead_of_how_text_fails() -> None:
    sql = BOUNDED + "project = @project\nAND length(event_message) >= @least\nAND length(project) > @most"
    report = check_draft(drafted(sql, DeclaredParameter("most", ParameterType.INTEGER)))
    assert told(report) == [("error", "parameters", 2, 30), ("warning", "parameters", 1, 64)]
    assert report.problems[0].message == (
        "@least: is not declared, so it is optional text; it is used as integer: declare it as integer"
    )
    assert report.columns is not None


def test_a_query_that_postgresql_refuses_anyhow_keeps_what_its_words_tell() -> None:
    report = check_draft(drafted("SELECT nothing FROM edge_logs WHERE timestamp > @a AND length(id) > @b"))
    assert [use.guessed_type for use in report.parameters] == [ParameterType.TIMESTAMP, None]
    assert "nothing" in report.problems[0].message
