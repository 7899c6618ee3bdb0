"""Saving an endpoint: checked on the log database, frozen whole, numbered; refused with the place of the fault."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import connections

from endpoints.calling.calls import run_endpoint
from endpoints.calling.query_requests import Call
from endpoints.defining.saving import check_endpoint, save_endpoint
from endpoints.errors import DatabaseUnavailable
from endpoints.log_database import servers
from endpoints.log_database.gate import GatePool
from endpoints.log_database.servers import LogServers, log_servers
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType

pytestmark = [pytest.mark.django_db, pytest.mark.sql]
PROJECT = DeclaredParameter("project", required=True)


def draft(sql: str, **fields: Any) -> Endpoint:
    return Endpoint(**{"name": "test.endpoint", "sql": sql, **fields})


def refusal(endpoint: Endpoint, *parameters: DeclaredParameter) -> dict[str, list[str]]:
    """Save what must be refused and return the messages by field, after checking that nothing was saved."""
    before = list(Endpoint.history.values_list("pk", flat=True))
    with pytest.raises(ValidationError) as refused:
        save_endpoint(endpoint, parameters)
    assert list(Endpoint.history.values_list("pk", flat=True)) == before
    messages: dict[str, list[str]] = refused.value.message_dict
    return messages


def body(reference: str = "test.endpoint", **arguments: str) -> bytes:
    return run_endpoint(reference, call=Call(arguments)).outcome.body


FAULTS = [
    ("SELECT 1 FROM edge_logs\nWHERE", "Line 2, column 6: PostgreSQL: syntax error at "),
    ("SELECT id\nFROM no_such_table", 'Line 2, column 6: PostgreSQL: relation "no_such_table" does not exist.'),
    ("SELECT id,\n  nothing\nFROM edge_logs", 'Line 2, column 3: PostgreSQL: column "nothing" does not exist.'),
    ("SELECT @first AS a,\n @second AS b,   nothing", 'Line 2, column 18: PostgreSQL: column "nothing" does not'),
    ("SELECT 'ü🦊' AS a, nothing", 'Line 1, column 19: PostgreSQL: column "nothing" does not exist.'),
    ("SELECT timestamp FROM edge_logs WHERE idd = 'x'", "Line 1, column 39: PostgreSQL: column "),
    ("SELECT no_such_function(@a)", "Line 1, column 8: PostgreSQL: function no_such_function(text) does not exist."),
    ("SELECT 'a'::text\n  + 1 AS b", "Line 2, column 3: PostgreSQL: operator does not exist: text + integer."),
    ("SELECT 1 AS a, 'x'::int AS b", "Line 1, column 16: PostgreSQL: invalid input syntax for type integer"),
    ("SELECT 1 AS a;\nSELECT 2", "Line 1, column 14: a second statement."),
    ("SELECT $1 AS a", "Line 1, column 8: write @name, not a numbered parameter."),
    ("SELECT (1 AS a", "Line 1, column 8: `(` is never closed."),
    ("SELECT 1) AS a", "Line 1, column 9: `)` closes nothing."),
    ("\n  DELETE FROM edge_logs", "Line 2, column 3: a query begins with SELECT or WITH."),
    ("SELECT 'open", "Line 1, column 8: "),
    ("-- nothing but this", "Line 1, column 1: there is no query."),
    ("WITH gone AS (DELETE FROM edge_logs RETURNING id) SELECT id FROM gone", "PostgreSQL: "),
    ("SELECT 1 AS a INTO public.x", "PostgreSQL: "),
    ("SELECT rolname FROM pg_authid", "PostgreSQL: permission denied for table pg_authid."),
    ("SELECT id FROM logs.edge_logs_default", "PostgreSQL: permission denied for table edge_logs_default."),
    ("SELECT logs_private.tenant()", "PostgreSQL: permission denied for schema logs_private."),
    ("SELECT pg_read_file('/etc/passwd')", "PostgreSQL: permission denied for function pg_read_file."),
    ("SELECT id FROM edge_logs FOR UPDATE", "PostgreSQL: "),
]


@pytest.mark.parametrize(("sql", "message"), FAULTS)
def test_a_query_that_cannot_run_is_refused_at_its_place(sql: str, message: str) -> None:
    (shown,) = refusal(draft(sql))["sql"]
    assert message in shown


def test_the_hint_of_postgresql_is_shown() -> None:
    (shown,) = refusal(draft("SELECT event_mesage FROM edge_logs"))["sql"]
    assert "Perhaps you meant to reference the column" in shown


def test_every_faulty_declaration_is_named() -> None:
    parameters = [
        DeclaredParameter("unused"),
        DeclaredParameter("level", type=ParameterType.INTEGER, minimum="9", maximum="1"),
        DeclaredParameter("word", pattern="("),
        DeclaredParameter("word"),
    ]
    messages = refusal(draft("SELECT @level AS a, @word AS b, '@unused' AS c"), *parameters)["parameters"]
    assert [message.partition(":")[0] for message in messages] == ["@word", "@unused", "@level", "@word"]
    assert "declared but not used" in " ".join(messages)


TENANT = [
    ([], "must be declared as required text"),
    ([DeclaredParameter("project")], "must be declared as required text"),
    ([DeclaredParameter("project", type=ParameterType.INTEGER, required=True)], "must be declared as required text"),
    ([DeclaredParameter("project", type=ParameterType.TEXT_LIST, required=True)], "must be declared as required text"),
]


@pytest.mark.parametrize(("parameters", "message"), TENANT)
def test_the_tenant_parameter_must_be_required_text(parameters: list[DeclaredParameter], message: str) -> None:
    messages = refusal(draft("SELECT @project AS a", tenant_parameter="project"), *parameters)
    assert message in messages["tenant_parameter"][0]


def test_the_tenant_parameter_must_be_a_parameter_of_the_query() -> None:
    messages = refusal(draft("SELECT @project AS a", tenant_parameter="tenant"), PROJECT)
    assert messages == {"tenant_parameter": ["The query has no parameter @tenant."]}


def test_required_text_is_taken_as_the_tenant_parameter() -> None:
    assert save_endpoint(draft("SELECT @project AS a", tenant_parameter="project"), [PROJECT]).version == 1


SETTINGS = [
    ({"name": "has space"}, "name"),
    ({"name": "logs.all"}, "name"),
    ({"name": "00000000-0000-0000-0000-000000000000"}, "name"),
    ({"name": ""}, "name"),
    ({"sql": ""}, "sql"),
    ({"max_rows": 0}, "max_rows"),
    ({"max_rows": 100_001}, "max_rows"),
    ({"statement_timeout_seconds": 0}, "statement_timeout_seconds"),
    ({"statement_timeout_seconds": 301}, "statement_timeout_seconds"),
    ({"planner_settings": "work_mem = 1"}, "planner_settings"),
    ({"cache_seconds": 86_401}, "cache_seconds"),
    ({"warm_every_seconds": 10}, "warm_every_seconds"),
    ({"warm_every_seconds": 60, "cache_seconds": 60}, "warm_every_seconds"),
    ({"tenant_parameter": "no name"}, "tenant_parameter"),
]


@pytest.mark.parametrize(("fields", "field"), SETTINGS, ids=str)
def test_a_setting_outside_its_limits_is_refused_at_its_field(fields: dict[str, Any], field: str) -> None:
    assert field in refusal(draft(**{"sql": "SELECT 1 AS a", **fields}))


@contextmanager
def log_database_down(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    nowhere = GatePool({**settings.LOGS_GATE, "host": "127.0.0.1", "port": "1"}, size=2, wait_seconds=0.2)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(servers, "_servers", LogServers([nowhere]))
            yield
    finally:
        nowhere.close()


def test_nothing_is_saved_while_the_log_database_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = save_endpoint(draft("SELECT 1 AS a"), [])
    endpoint.sql = "SELECT 2 AS a"
    with log_database_down(monkeypatch):
        (message,) = refusal(endpoint)["sql"]
        with pytest.raises(DatabaseUnavailable):
            body()
    assert message == f"The log database could not check the query. {DatabaseUnavailable().message} Nothing was saved."
    assert body() == b'{"result":[{"a":1}]}'


def test_nothing_is_saved_while_the_log_databases_owner_cannot_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    log_servers().primary()
    monkeypatch.setitem(connections["logs"].settings_dict, "PASSWORD", "")
    monkeypatch.setitem(connections["logs"].settings_dict, "USER", "nobody_of_this_name")
    (message,) = refusal(draft("SELECT 1 AS a"))["sql"]
    assert f"{DatabaseUnavailable().message} Nothing was saved." in message


def test_a_query_that_takes_too_long_to_plan_is_told(monkeypatch: pytest.MonkeyPatch, log_database: Any) -> None:
    log_database.execute("BEGIN")
    log_database.execute("LOCK TABLE logs.edge_logs IN ACCESS EXCLUSIVE MODE")
    (message,) = refusal(draft("SELECT id FROM edge_logs", statement_timeout_seconds=1))["sql"]
    log_database.execute("ROLLBACK")
    assert "ran longer than 1 s" in message


def test_the_version_freezes_parameters_and_result_columns() -> None:
    sql = (
        "SELECT timestamp, metadata AS m, count(*) AS n, @project AS p, @undeclared AS u, 1.5::numeric(4,1) AS price"
        " FROM edge_logs GROUP BY 1, 2"
    )
    project = DeclaredParameter("project", required=True, allowed_values=("a", "b"), description="Whose rows.")
    save_endpoint(draft(sql), [project])
    saved = Endpoint.objects.get(name="test.endpoint")
    assert saved.result_columns == [
        {"name": "timestamp", "type": "timestamp with time zone"},
        {"name": "m", "type": "jsonb"},
        {"name": "n", "type": "bigint"},
        {"name": "p", "type": "text"},
        {"name": "u", "type": "text"},
        {"name": "price", "type": "numeric(4,1)"},
    ]
    assert saved.parameters_of_version == (project, DeclaredParameter("undeclared"))
    assert [row.declared() for row in saved.parameters.all()] == [project]


def test_two_result_columns_of_one_name_are_kept_in_order() -> None:
    saved = save_endpoint(draft("SELECT 1 AS a, 'x'::text AS a"), [])
    assert [column["type"] for column in saved.result_columns] == ["integer", "text"]


@pytest.mark.parametrize(
    ("type_", "default", "kept"),
    [
        (ParameterType.TEXT, "x", "x"),
        (ParameterType.TEXT, None, None),
        (ParameterType.BOOLEAN, True, "True"),
        (ParameterType.INTEGER, 5, "5"),
        (ParameterType.TEXT_LIST, ["x"], "x"),
        (ParameterType.TEXT_LIST, [], None),
    ],
)
def test_a_default_is_the_same_in_the_version_and_in_the_admins_row(
    type_: ParameterType, default: Any, kept: str | None
) -> None:
    saved = save_endpoint(draft("SELECT @a AS a"), [DeclaredParameter("a", type=type_, default=default)])
    (frozen,) = saved.parameters_of_version
    (row,) = saved.parameters.all()
    assert frozen == row.declared()
    assert frozen.default == kept
    assert body().startswith(b'{"result":')


def test_a_default_of_several_texts_is_refused() -> None:
    parameter = DeclaredParameter("a", type=ParameterType.TEXT_LIST, default=["x", "y"])
    assert "a default is one text" in refusal(draft("SELECT @a AS a"), parameter)["parameters"][0]


def test_versions_count_up_and_the_history_keeps_each() -> None:
    endpoint = draft("SELECT 1 AS a")
    for number in (1, 2, 3):
        endpoint.sql = f"SELECT {number} AS a"
        endpoint.max_rows = number
        assert save_endpoint(endpoint, []).version == number
    history = endpoint.history.order_by("version").values_list("version", "sql", "max_rows", "history_type")
    assert list(history) == [
        (1, "SELECT 1 AS a", 1, "+"),
        (2, "SELECT 2 AS a", 2, "~"),
        (3, "SELECT 3 AS a", 3, "~"),
    ]


def test_a_saver_with_an_old_copy_still_gets_the_next_number() -> None:
    save_endpoint(draft("SELECT 1 AS a"), [])
    one, other = (Endpoint.objects.get(name="test.endpoint") for _ in range(2))
    assert save_endpoint(one, []).version == 2
    assert save_endpoint(other, []).version == 3


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("SELECT nothing", [PROJECT]),
        ("SELECT 1 AS a", [PROJECT]),
        ("SELECT @project AS b", [DeclaredParameter("project", pattern="(")]),
        ("SELECT @a AS a", [DeclaredParameter("a", type=ParameterType.TEXT_LIST, default=["x", "y"])]),
        ("SELECT @project AS b FROM pg_authid", [PROJECT]),
    ],
)
def test_a_failed_save_leaves_the_old_version_callable(sql: str, parameters: list[DeclaredParameter]) -> None:
    endpoint = save_endpoint(draft("SELECT @project AS a"), [PROJECT])
    endpoint.sql = sql
    refusal(endpoint, *parameters)
    kept = Endpoint.objects.get(name="test.endpoint")
    assert (kept.version, kept.sql) == (1, "SELECT @project AS a")
    assert [row.declared() for row in kept.parameters.all()] == [PROJECT]
    assert body(project="acme") == b'{"result":[{"a":"acme"}]}'


def test_a_new_version_is_what_the_next_call_runs() -> None:
    endpoint = save_endpoint(draft("SELECT @project AS a"), [PROJECT])
    endpoint.sql = "SELECT @other AS b"
    save_endpoint(endpoint, [])
    assert body(project="ignored", other="x") == b'{"result":[{"b":"x"}]}'
    assert not endpoint.parameters.exists()


def test_checking_runs_nothing_and_saves_nothing(log_database: psycopg.Connection[Any]) -> None:
    endpoint = draft("SELECT pg_sleep(60) AS a, @x AS b", statement_timeout_seconds=1)
    assert [column.name for column in check_endpoint(endpoint, [])] == ["a", "b"]
    assert not Endpoint.objects.filter(name="test.endpoint").exists()


SANDBOX_SQL = "WITH a AS (SELECT @project AS p), b AS (SELECT 1 AS x) SELECT 1 AS x FROM a"


def test_a_default_sandbox_table_is_a_cte_of_the_query() -> None:
    saved = save_endpoint(draft(SANDBOX_SQL, sandboxing=True, default_sandbox_table="b"), [PROJECT])
    assert saved.default_sandbox_table == "b"


def test_refuses_a_default_sandbox_table_that_is_none() -> None:
    message = "The query has no CTE of this name; its CTEs are a, b."
    refused = refusal(draft(SANDBOX_SQL, sandboxing=True, default_sandbox_table="c"), PROJECT)
    assert refused == {"default_sandbox_table": [message]}
    assert save_endpoint(draft(SANDBOX_SQL, default_sandbox_table="c"), [PROJECT]).version == 1
