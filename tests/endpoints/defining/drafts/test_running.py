"""A draft runs as a saved version of it would: same rows, limits, tenant, redaction and errors; never from a cache."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from endpoints.calling.calls import run_endpoint
from endpoints.calling.query_requests import Call
from endpoints.defining.drafts import (
    Draft,
    DraftFailed,
    DraftRun,
    InvalidDraft,
    Position,
    SentArgument,
    explain_draft,
    run_draft,
    running,
)
from endpoints.defining.saving import save_endpoint
from endpoints.errors import (
    EndpointError,
    InvalidLQL,
    InvalidParameters,
    InvalidSQL,
    Overloaded,
    QueryTimeout,
    SandboxDisabled,
    SandboxViolation,
    StoredQueryFailed,
)
from endpoints.log_database.publishing import published_schemas
from endpoints.log_database.servers import log_servers
from endpoints.models import Endpoint
from endpoints.results.outcomes import Column
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from tests.moments import now

pytestmark = [pytest.mark.django_db, pytest.mark.sql]
RUN = "5f0c1f0e-run-of-a-test"
PROJECT = DeclaredParameter("project", required=True)
LOGS = """WITH edge_logs AS (
  SELECT t.timestamp, t.id, t.event_message, t.metadata FROM logs.edge_logs AS t
  WHERE t.project = @project AND t.timestamp > now() - interval '1 day'
    AND t.timestamp <= now() ORDER BY t.timestamp DESC
)
SELECT id, event_message FROM edge_logs ORDER BY timestamp DESC"""


@pytest.fixture
def rows(insert_rows: Any) -> None:
    insert_rows(
        "edge_logs",
        [
            {"timestamp": now() - timedelta(minutes=n), "project": project, "id": f"{project}{n}"}
            | {"event_message": f"from 203.0.113.{n}", "metadata": [{"n": n}]}
            for n in range(3)
            for project in ("acme", "globex")
        ],
    )


def drafted(sql: str = LOGS, *parameters: DeclaredParameter, **fields: Any) -> Draft:
    return Draft(**{"sql": sql, "parameters": parameters or ((PROJECT,) if "@project" in sql else ()), **fields})


def run(draft: Draft, *, sql: str = "", lql: str = "", redact: bool = False, **arguments: Any) -> DraftRun:
    call = Call(arguments, sandbox_sql=sql, sandbox_lql=lql, redact=redact)
    return run_draft(draft, call=call, run_id=RUN)


def result(done: DraftRun) -> Any:
    return json.loads(done.body)["result"]


def test_names_fields_of_a_bigquery_text_that_no_row_has(rows: None) -> None:
    draft = drafted(sandboxing=True, sandbox_dialect="bigquery")
    text = "select m.methd from edge_logs cross join unnest(metadata) m"
    assert run(draft, sql=text, project="acme").notes == ("metadata.methd: no sampled row has this field",)
    assert run(draft, sql=text.replace("methd", "n"), project="acme").notes == ()


def test_returns_rows_columns_and_the_statement(rows: None) -> None:
    done = run(drafted(), project="acme")
    assert [row["id"] for row in result(done)] == ["acme0", "acme1", "acme2"]
    assert done.columns == (Column("id", "text"), Column("event_message", "text"))
    assert (done.row_count, done.shown_rows, done.truncated) == (3, 3, False)
    assert "($1::text)" in done.statement.sql
    assert done.statement.arguments == (SentArgument("$1", "project", "acme"),)
    assert (done.statement.role, done.statement.search_path) == ("query_reader", "logs")
    assert not Endpoint.objects.filter(sql=LOGS).exists()


CALLS: list[dict[str, Any]] = [
    {},
    {"sandbox_sql": "select id, metadata from edge_logs order by id desc"},
    {"sandbox_sql": "select @project as p, count(*) as n from edge_logs"},
    {"sandbox_lql": "m.n:>0"},
    {"sandbox_lql": "s:id s:event_message", "redact": True},
    {"redact": True},
]


@pytest.mark.parametrize("call", CALLS, ids=str)
@pytest.mark.parametrize("tenant", ["", "project"])
def test_gives_what_the_saved_version_gives(rows: None, call: dict[str, Any], tenant: str) -> None:
    draft = drafted(name="test.draft", sandboxing=True, tenant_parameter=tenant, max_rows=2)
    save_endpoint(draft.endpoint(), draft.parameters)
    sent = Call({"project": "acme"}, **call)
    tried = run_draft(draft, call=sent, run_id=RUN)
    served = run_endpoint("test.draft", call=sent).outcome
    assert tried.body == served.body
    assert (tried.row_count, tried.truncated) == (served.row_count, served.truncated)
    assert [column.name for column in tried.columns] == list(json.loads(tried.body)["result"][0])


def test_a_tenant_parameter_hides_other_projects(rows: None) -> None:
    sql = "SELECT DISTINCT project, @project AS p FROM edge_logs ORDER BY 1"
    assert [row["project"] for row in result(run(drafted(sql), project="acme"))] == ["acme", "globex"]
    assert [row["project"] for row in result(run(drafted(sql, tenant_parameter="project"), project="acme"))] == ["acme"]


def test_what_the_operator_switched_on_redacts_every_run(rows: None) -> None:
    assert {row["event_message"] for row in result(run(drafted(redact_pii=True), project="acme"))} == {"from REDACTED"}


def test_drafts_with_the_same_ctes_share_one_sandbox(rows: None) -> None:
    done = run(drafted(sandboxing=True), sql="select id from edge_logs", project="acme")
    assert done.statement.role == "sandbox_reader"
    made = published_schemas()
    # Somebody goes on typing behind the CTEs.
    changed = run(drafted(f"{LOGS} limit 7", sandboxing=True), sql="select id from edge_logs", project="acme")
    assert changed.statement.search_path == done.statement.search_path
    assert published_schemas() == made


def test_the_arguments_of_lql_are_listed_as_the_services_own(rows: None) -> None:
    done = run(drafted(sandboxing=True), lql="m.n:>0", project="acme")
    assert [argument.name for argument in done.statement.arguments] == [""] * len(done.statement.arguments)


FAILURES: list[tuple[str, dict[str, Any], type[EndpointError], str, tuple[int, int] | None]] = [
    ("SELECT 1 AS a,\n nothing", {}, StoredQueryFailed, 'column "nothing" does not exist', (2, 2)),
    ("SELECT 1 / 0 AS a", {}, StoredQueryFailed, "division by zero", None),
    ("SELECT @project::int AS a", {"project": "x1"}, StoredQueryFailed, 'integer: "x1"', None),
    ("SELECT rolname FROM pg_authid", {}, StoredQueryFailed, "permission denied for table pg_authid", None),
]


@pytest.mark.parametrize(("sql", "arguments", "error", "message", "place"), FAILURES)
@pytest.mark.parametrize("attempt", [run_draft, explain_draft])
def test_a_failure_is_the_consumers_error_with_postgresqls_own_words(
    sql: str,
    arguments: dict[str, Any],
    error: type[EndpointError],
    message: str,
    place: tuple[int, int] | None,
    attempt: Any,
) -> None:
    with pytest.raises(DraftFailed) as failed:
        attempt(drafted(sql), call=Call(arguments), run_id=RUN)
    assert isinstance(failed.value.error, error)
    assert message in failed.value.operator.message
    assert failed.value.operator.field == "sql"
    assert failed.value.operator.place == (Position(*place) if place else None)


def test_a_failure_of_a_sandbox_query_has_its_place_in_the_consumers_text(rows: None) -> None:
    with pytest.raises(DraftFailed) as failed:
        run(drafted(sandboxing=True), sql="select id,\n  nope from edge_logs", project="acme")
    assert isinstance(failed.value.error, InvalidSQL)
    assert (failed.value.operator.field, failed.value.operator.place) == ("call.sql", Position(2, 3))
    assert 'column "nope" does not exist' in failed.value.operator.message


def test_a_failure_inside_a_sandbox_table_is_told_to_the_operator_alone() -> None:
    sql = "WITH a AS (SELECT 1 / (@project::int) AS x) SELECT 1 AS y FROM a"
    with pytest.raises(DraftFailed) as failed:
        run(drafted(sql, sandboxing=True), sql="select x from a", project="secret")
    assert "secret" in failed.value.operator.message
    assert "secret" not in str(failed.value.error.body(""))


def test_ctes_that_cannot_be_published_are_told_at_their_place() -> None:
    draft = drafted("WITH a AS (SELECT 1 AS x),\n pg_b AS (SELECT 1 AS y) SELECT x FROM a", sandboxing=True)
    with pytest.raises(DraftFailed) as failed:
        run(draft, sql="select x from a")
    assert failed.value.operator.place == Position(2, 2)


REFUSALS: list[tuple[Draft, dict[str, Any], type[EndpointError]]] = [
    (drafted(), {}, InvalidParameters),
    (drafted(), {"project": "acme", "sql": "select 1"}, SandboxDisabled),
    (drafted(sandboxing=True), {"project": "acme", "sql": "select * from pg_authid"}, SandboxViolation),
    (drafted(sandboxing=True), {"project": "acme", "lql": "f:nowhere"}, InvalidLQL),
    (drafted("SELECT 'a' ~ @project AS a"), {"project": "("}, InvalidParameters),
]


@pytest.mark.parametrize(("draft", "sent", "error"), REFUSALS)
def test_what_a_consumer_is_refused_the_operator_is_too(
    draft: Draft, sent: dict[str, Any], error: type[EndpointError]
) -> None:
    with pytest.raises(error):
        run(draft, **sent)


UNRUNNABLE = [
    (drafted("SELECT 'open"), ["sql"]),
    (drafted("SELECT 1; SELECT 2"), ["sql"]),
    (drafted("SELECT 1 AS a", max_rows=0), ["max_rows"]),
    (drafted("SELECT 1 AS a", not_numbers=frozenset({"max_rows"})), ["max_rows"]),
    (drafted("SELECT 1 AS a", statement_timeout_seconds=0), ["statement_timeout_seconds"]),
    (drafted("SELECT 1 AS a", statement_timeout_seconds=-1), ["statement_timeout_seconds"]),
    (drafted("SELECT @a AS a", DeclaredParameter("a", pattern="(")), ["parameters"]),
    (drafted("SELECT @a AS a", DeclaredParameter("a"), DeclaredParameter("a")), ["parameters"]),
    (drafted("SELECT @a AS a", DeclaredParameter("a"), tenant_parameter="b"), ["tenant_parameter"]),
    (drafted(""), ["sql"]),
]


@pytest.mark.parametrize(("draft", "fields"), UNRUNNABLE)
def test_a_draft_that_cannot_be_tried_says_why(draft: Draft, fields: list[str]) -> None:
    with pytest.raises(InvalidDraft) as refused:
        run(draft)
    assert [problem.field for problem in refused.value.problems] == fields


def test_an_unused_declaration_or_a_missing_name_does_not_keep_a_draft_from_being_tried() -> None:
    done = run(drafted("SELECT 1 AS a", DeclaredParameter("unused", required=True), name=""))
    assert result(done) == [{"a": 1}]


def test_max_rows_and_the_timeout_hold() -> None:
    done = run(drafted("SELECT x FROM generate_series(1, 10) x", max_rows=3))
    assert (done.row_count, done.truncated) == (3, True)
    with pytest.raises(QueryTimeout):
        run(drafted("SELECT pg_sleep(30) AS a", statement_timeout_seconds=1))


HOSTILE = ["'; DROP TABLE logs.edge_logs; --", "' OR '1'='1", "%s $1 :x", "ünïcødé 🦊", "x" * 20_000, "{}", "\\"]


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_values_are_bound(value: str) -> None:
    done = run(drafted("SELECT @project AS a"), project=value)
    assert result(done) == [{"a": value}]
    assert value not in done.statement.sql or len(value) < 3
    assert done.statement.arguments[0].value == value


def test_a_result_too_large_for_a_page_is_cut_for_the_page_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "MAX_SHOWN_BYTES", 5_000)
    done = run(drafted("SELECT x, repeat('y', 100) AS y FROM generate_series(1, 200) x"))
    assert done.row_count == 200
    assert 20 < done.shown_rows < 60
    assert len(result(done)) == done.shown_rows
    monkeypatch.setattr(running, "MAX_SHOWN_ROWS", 7)
    assert run(drafted("SELECT x FROM generate_series(1, 200) x")).shown_rows == 7


def test_digits_are_kept() -> None:
    assert run(drafted("SELECT 12345678901234567890.10::numeric AS a")).body == (
        b'{"result":[{"a":12345678901234567890.10}]}'
    )


def test_drafts_leave_connections_to_calls(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    log_servers()  # made before: other tests keep these pools
    settings.ENDPOINTS_POOL_SIZE = 2
    monkeypatch.setattr(running, "_running", 1)
    with pytest.raises(Overloaded):
        run(drafted("SELECT 1 AS a"))
    monkeypatch.setattr(running, "_running", 0)
    assert result(run(drafted("SELECT 1 AS a"))) == [{"a": 1}]


def test_drafts_that_fail_leave_their_places_to_later_ones(settings: Any) -> None:
    log_servers()  # made before: other tests keep these pools
    settings.ENDPOINTS_POOL_SIZE = 2
    for _ in range(3):
        with pytest.raises(DraftFailed):
            run(drafted("SELECT 1 / 0 AS a"))
        with pytest.raises(InvalidDraft):
            run(drafted("SELECT ("))
    assert result(run(drafted("SELECT 1 AS a"))) == [{"a": 1}]


def test_explains_the_statement_with_the_partitions_it_touches(rows: None) -> None:
    plan = explain_draft(drafted(), call=Call({"project": "acme"}), run_id=RUN)
    assert plan.statement == run(drafted(), project="acme").statement
    (table,) = plan.tree.tables
    assert table.table == "edge_logs"
    assert table.touched
    assert len(table.pruned) > len(table.touched)
    assert plan.tree.root.rows_actual == 3
    assert plan.tree.execution_ms > 0


def test_explains_sandbox_queries_too(rows: None) -> None:
    draft = drafted(sandboxing=True, tenant_parameter="project")
    plan = explain_draft(
        draft, call=Call({"project": "acme"}, sandbox_lql="c:count(*) c:group_by(t::hour)"), run_id=RUN
    )
    assert [table.table for table in plan.tree.tables] == ["edge_logs"]


def test_a_list_argument_is_bound_as_a_list() -> None:
    draft = drafted("SELECT 'b' = any(@names) AS a", DeclaredParameter("names", type=ParameterType.TEXT_LIST))
    done = run(draft, names=["a", "b"])
    assert result(done) == [{"a": True}]
    assert done.statement.arguments == (SentArgument("$1", "names", ["a", "b"]),)
