"""Drafts over HTTP: exact shapes, who may, honest statuses, and nothing of it kept by a browser or a cache."""

from __future__ import annotations

import json
import threading
import uuid
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from django.contrib.auth.models import Permission, User
from django.db import connections
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.urls import resolve, reverse

from endpoints.calling.catalogue import forget_catalogue
from endpoints.models import Endpoint
from tests.live.calls import until

pytestmark = pytest.mark.django_db
WORDS = ("check", "run", "explain", "cancel", "catalogue")
RUN_ID = "0f1e2d3c-4b5a-6978"
PROJECT = {"name": "project", "type": "text", "required": True}


def address(word: str) -> str:
    return reverse(f"admin:endpoints_endpoint_draft_{word}")


def post(client: Client, word: str, body: Any, **options: Any) -> Any:
    return client.post(address(word), body, content_type="application/json", **options)


def draft(sql: str = "SELECT @project AS p", **fields: Any) -> dict[str, Any]:
    return {"sql": sql, "parameters": [PROJECT] if "@project" in sql else [], **fields}


def body(sql: str = "SELECT @project AS p", *, call: Any = None, **fields: Any) -> dict[str, Any]:
    return {"draft": draft(sql, **fields), "call": call or {}, "run_id": RUN_ID}


def sent(word: str) -> dict[str, Any]:
    """A sound body for an address."""
    whole = body(call={"arguments": {"project": "acme"}})
    return {"check": {"draft": whole["draft"]}, "cancel": {"run_id": RUN_ID}}.get(word, whole)


def ask(client: Client, word: str) -> Any:
    return client.get(address(word)) if word == "catalogue" else post(client, word, sent(word))


def error_of(response: HttpResponse, status: int, code: str) -> Any:
    assert response.status_code == status
    error = json.loads(response.content)["error"]
    assert error["code"] == code
    assert set(error) == {"code", "message", "details", "request_id", "consumer_status", "operator"}
    assert response["Cache-Control"] == "no-store"
    return error


def operator(*codenames: str) -> Client:
    user = User.objects.create_user("operator", password="x", is_staff=True)
    for codename in codenames:
        user.user_permissions.add(Permission.objects.get(codename=codename, content_type__app_label="endpoints"))
    client = Client()
    client.force_login(user)
    return client


def test_check_answers_as_described(admin_client: Client) -> None:
    response = post(admin_client, "check", {"draft": draft("SELECT @project AS p,\n  @n::int AS n", name="test.draft")})
    assert response.status_code == 200
    assert response["Cache-Control"] == "no-store"
    assert response.json() == {
        "ok": True,
        "problems": [
            {
                "severity": "warning",
                "field": "parameters",
                "parameter": "n",
                "message": "@n: is not declared, so it is optional text; it is used as integer",
                "line": 2,
                "column": 3,
            }
        ],
        "parameters": [
            {"name": "project", "declared": True, "guessed_type": "text", "places": [{"line": 1, "column": 8}]},
            {"name": "n", "declared": False, "guessed_type": "integer", "places": [{"line": 2, "column": 3}]},
        ],
        "columns": [{"name": "p", "type": "text"}, {"name": "n", "type": "integer"}],
        "sandbox_tables": [],
    }


def test_check_tells_the_sandbox_tables_and_problems_at_their_place(admin_client: Client) -> None:
    sql = "WITH a AS (SELECT 1 AS x) SELECT x FROM a"
    answer = post(admin_client, "check", {"draft": draft(sql, name="t", sandboxing=True)}).json()
    assert answer["sandbox_tables"] == [{"name": "a", "columns": [{"name": "x", "type": "integer"}]}]
    answer = post(admin_client, "check", {"draft": draft("SELECT\n nope", name="t", max_rows="many")}).json()
    assert not answer["ok"]
    assert answer["columns"] is None
    assert [(one["field"], one["line"], one["column"]) for one in answer["problems"]] == [
        ("max_rows", None, None),
        ("sql", 2, 2),
    ]


def test_run_answers_as_described(admin_client: Client) -> None:
    response = post(admin_client, "run", body(call={"arguments": {"project": "acme"}}, max_rows="10"))
    answer = response.json()
    seconds = answer.pop("database_seconds"), answer.pop("seconds")
    assert 0 < seconds[0] <= seconds[1]
    assert response["Cache-Control"] == "no-store"
    statement = answer.pop("statement")
    assert statement.pop("sql").startswith("SELECT * FROM (\nSELECT ($1::text) AS p\n")
    assert statement == {
        "arguments": [{"placeholder": "$1", "name": "project", "value": "acme"}],
        "role": "query_reader",
        "search_path": "logs",
    }
    assert answer == {
        "columns": [{"name": "p", "type": "text"}],
        "result_json": '{"result":[{"p":"acme"}]}',
        "row_count": 1,
        "shown_rows": 1,
        "notes": [],
        "truncated": False,
        "cache": "bypass",
    }


def test_explain_answers_as_described(admin_client: Client) -> None:
    sql = "SELECT id FROM edge_logs WHERE project = @project AND timestamp > now()"
    answer = post(admin_client, "explain", body(sql, call={"arguments": {"project": "acme"}})).json()
    assert set(answer) == {"plan", "planning_ms", "execution_ms", "tables", "statement"}
    assert {"node", "relation", "details", "rows_actual", "ms", "own_ms", "executed", "children"} <= set(answer["plan"])
    assert "buffers_hit" in answer["plan"]["children"][0]
    (table,) = answer["tables"]
    assert table["table"] == "edge_logs"
    assert set(table) == {"table", "touched", "pruned"}


def test_catalogue_answers_as_described(admin_client: Client, insert_rows: Any) -> None:
    forget_catalogue()
    insert_rows(
        "edge_logs", [{"timestamp": datetime.now(UTC), "project": "a", "metadata": [{"request": {"url": "/"}}]}]
    )
    answer = admin_client.get(address("catalogue")).json()
    forget_catalogue()
    edge = next(source for source in answer["sources"] if source["name"] == "edge_logs")
    assert set(edge) == {"name", "table", "holds", "project", "columns", "metadata_paths"}
    assert {
        "path": "request.url",
        "type": "text",
        "rows": 1,
        "steps": ["0", "request", "url"],
        "column": "request_url",
    } in edge["metadata_paths"]
    assert {"name": "id", "type": "text", "path": None} in edge["columns"]
    assert "timestamp" in answer["parameter_types"]


def test_what_a_consumer_would_get_comes_with_what_postgresql_said(admin_client: Client) -> None:
    error = error_of(post(admin_client, "run", body("SELECT\n nope")), 422, "stored_query_failed")
    assert error["consumer_status"] == 500
    assert error["operator"]["sqlstate"] == "42703"
    assert (error["operator"]["field"], error["operator"]["line"], error["operator"]["column"]) == ("sql", 2, 2)
    assert error["request_id"]
    error = error_of(post(admin_client, "run", body()), 400, "invalid_parameters")
    assert error["details"] == [{"name": "project", "reason": "is required"}]
    assert (error["consumer_status"], error["operator"]) == (400, None)
    sandbox = body("WITH a AS (SELECT 1 AS x) SELECT x FROM a", call={"sql": "select\n y from a"}, sandboxing=True)
    error = error_of(post(admin_client, "run", sandbox), 400, "invalid_sql")
    assert (error["operator"]["field"], error["operator"]["line"]) == ("call.sql", 2)


def test_a_draft_that_cannot_be_tried_is_told_by_field(admin_client: Client) -> None:
    error = error_of(post(admin_client, "run", body("SELECT 'x", name="t")), 422, "invalid_draft")
    assert [(one["field"], one["line"], one["column"]) for one in error["details"]] == [("sql", 1, 8)]
    assert error["consumer_status"] is None


def test_a_timeout_is_a_504(admin_client: Client) -> None:
    slow = body("SELECT pg_sleep(30) AS a", statement_timeout_seconds=1)
    assert error_of(post(admin_client, "run", slow), 504, "query_timeout")["consumer_status"] == 504


def test_a_log_database_that_is_down_is_a_503(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connections["logs"].settings_dict, "HOST", "127.0.0.1")
    monkeypatch.setitem(connections["logs"].settings_dict, "PORT", "1")
    forget_catalogue()
    error_of(admin_client.get(address("catalogue")), 503, "database_unavailable")


MALFORMED: list[Any] = [
    b" ",
    b"no json",
    b"[]",
    b'"x"',
    b"\xff\xfe",
    b'{"draft": {"sql": "\\ud800"}}',
    b"[" * 5_000,
    {},
    {"draft": None},
    {"draft": []},
    {"draft": {}},
    {"draft": {"sql": 1}},
    {"draft": {"sql": "SELECT 1", "nonsense": 1}},
    {"draft": {"sql": "SELECT 1", "endpoint_id": 1}},
    {"draft": {"sql": "SELECT 1", "id": "x"}},
    {"draft": {"sql": "SELECT 1", "id": 1}},
    {"draft": {"sql": "SELECT 1", "sandboxing": "yes"}},
    {"draft": {"sql": "SELECT 1", "parameters": {}}},
    {"draft": {"sql": "SELECT 1", "parameters": [1]}},
    {"draft": {"sql": "SELECT 1", "parameters": [{}]}},
    {"draft": {"sql": "SELECT 1", "parameters": [{"name": "a", "type": "money"}]}},
    {"draft": {"sql": "SELECT 1", "parameters": [{"name": "a", "default": 1}]}},
    {"draft": {"sql": "SELECT 1", "parameters": [{"name": "a", "allowed_values": [1]}]}},
    {"draft": {"sql": "SELECT 1", "parameters": [{"name": "a", "to_json": "x"}]}},
    {"draft": {"sql": "SELECT 1", "parameters": [{"name": "a"}] * 201}},
]
MALFORMED_RUNS: list[Any] = [
    {"draft": {"sql": "SELECT 1 AS a"}},
    {"draft": {"sql": "SELECT 1 AS a"}, "run_id": "short"},
    {"draft": {"sql": "SELECT 1 AS a"}, "run_id": "*" * 20},
    {"draft": {"sql": "SELECT 1 AS a"}, "run_id": "a" * 65},
    {"draft": {"sql": "SELECT 1 AS a"}, "run_id": RUN_ID, "call": []},
    {"draft": {"sql": "SELECT 1 AS a"}, "run_id": RUN_ID, "call": {"arguments": []}},
    {"draft": {"sql": "SELECT 1 AS a"}, "run_id": RUN_ID, "call": {"arguments": {"a": {}}}},
    {"draft": {"sql": "SELECT 1 AS a"}, "run_id": RUN_ID, "call": {"sql": 1}},
    {"draft": {"sql": "SELECT 1 AS a"}, "run_id": RUN_ID, "call": {"redact": "no"}},
    {"draft": {"sql": "SELECT 1 AS a"}, "run_id": RUN_ID, "call": {"caller": "me"}},
]


@pytest.mark.parametrize("malformed", MALFORMED, ids=lambda one: str(one)[:40])
@pytest.mark.parametrize("word", ["check", "run", "explain"])
def test_refuses_a_body_that_is_not_as_described(admin_client: Client, word: str, malformed: Any) -> None:
    error_of(post(admin_client, word, malformed), 400, "invalid_request")


@pytest.mark.parametrize("malformed", MALFORMED_RUNS, ids=str)
@pytest.mark.parametrize("word", ["run", "explain"])
def test_refuses_a_run_that_is_not_as_described(admin_client: Client, word: str, malformed: Any) -> None:
    error_of(post(admin_client, word, malformed), 400, "invalid_request")


@pytest.mark.parametrize("number", [True, 1.5, "1.5", "many", [], {}, "9" * 40, 10**30])
def test_a_number_that_is_none_is_a_problem_of_its_field(admin_client: Client, number: Any) -> None:
    body = json.dumps({"draft": draft("SELECT 1 AS a", name="t", max_rows=number)})
    response = post(admin_client, "check", body)
    assert response.status_code == 200
    assert [(one["field"], one["message"]) for one in response.json()["problems"]] == [
        ("max_rows", "Enter a whole number.")
    ]


@pytest.mark.parametrize("value", ["'; DROP TABLE logs.edge_logs; --", "\x00", "🦊", "$1", "x" * 10_000])
def test_hostile_values_are_values_or_refused(admin_client: Client, value: str) -> None:
    response = post(admin_client, "run", body(call={"arguments": {"project": value}}))
    if "\x00" in value:
        error_of(response, 400, "invalid_parameters")
    else:
        assert json.loads(response.json()["result_json"]) == {"result": [{"p": value}]}


@pytest.mark.parametrize("word", ["check", "run", "explain", "cancel"])
def test_refuses_a_body_over_the_limit_and_other_content_types(admin_client: Client, settings: Any, word: str) -> None:
    response = admin_client.post(address(word), {"draft": "x"})
    error_of(response, 415, "unsupported_media_type")
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    error_of(post(admin_client, word, {"draft": {"sql": "x" * 2000}}), 413, "request_too_large")


@pytest.mark.parametrize("word", WORDS)
def test_refuses_other_methods(admin_client: Client, word: str) -> None:
    wanted = "get" if word == "catalogue" else "post"
    for method in {"get", "post", "put", "delete", "head"} - {wanted}:
        response = getattr(admin_client, method)(address(word), content_type="application/json")
        assert response.status_code == 405, method
        assert response["Allow"] == wanted.upper(), method


@pytest.mark.parametrize("word", WORDS)
def test_refuses_people_without_session_staff_or_permission(word: str) -> None:
    error_of(ask(Client(), word), 401, "not_logged_in")
    nobody = Client()
    nobody.force_login(User.objects.create_user("nobody", password="x"))
    error_of(ask(nobody, word), 401, "not_logged_in")
    error_of(ask(operator("change_endpoint", "add_endpoint", "view_endpoint"), word), 403, "not_permitted")


@pytest.mark.parametrize("word", WORDS)
def test_refuses_who_may_run_drafts_but_neither_add_nor_change(word: str) -> None:
    error_of(ask(operator("run_draft", "view_endpoint"), word), 403, "not_permitted")


@pytest.mark.parametrize("word", ["check", "run", "explain"])
def test_a_new_draft_needs_the_right_to_add_and_a_saved_one_to_change(word: str) -> None:
    saved = Endpoint.objects.get(name="usage.api-counts")
    new = sent(word)
    known = {**new, "draft": {**new["draft"], "id": str(saved.pk), "name": saved.name}}
    gone = {**new, "draft": {**new["draft"], "id": str(uuid.uuid4())}}
    adder = operator("run_draft", "add_endpoint")
    assert post(adder, word, new).status_code == 200
    error_of(post(adder, word, known), 403, "not_permitted")
    User.objects.all().delete()
    changer = operator("run_draft", "change_endpoint")
    assert post(changer, word, known).status_code == 200
    error_of(post(changer, word, new), 403, "not_permitted")
    error_of(post(changer, word, gone), 404, "endpoint_not_found")


@pytest.mark.parametrize("word", ["check", "run", "explain", "cancel"])
def test_a_post_needs_the_csrf_token(admin_user: User, word: str) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_user)
    assert post(client, word, sent(word)).status_code == 403
    client.get(reverse("admin:endpoints_endpoint_add"))
    token = client.cookies["csrftoken"].value
    # Nothing runs that could be cancelled.
    status = 404 if word == "cancel" else 200
    assert post(client, word, sent(word), headers={"X-CSRFToken": token}).status_code == status


def test_the_permission_exists_under_its_name() -> None:
    assert Permission.objects.get(codename="run_draft").name == "Can run drafts of endpoints"


def test_a_run_is_cancelled_by_its_own_operator_alone(
    admin_user: User, admin_client: Client, superuser: psycopg.Connection[Any]
) -> None:
    # Not through a client: another thread does not see the sessions of this test's transaction.
    request = RequestFactory().post(
        address("run"), body("SELECT pg_sleep(30), 'cancelled over HTTP' AS a"), content_type="application/json"
    )
    request.user = admin_user
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(resolve(address("run")).func(request)))
    stranger = operator("run_draft", "change_endpoint")
    error_of(post(stranger, "cancel", {"run_id": RUN_ID}), 404, "run_not_found")
    thread.start()
    until(lambda: bool(_running(superuser)), seconds=30)
    error_of(post(stranger, "cancel", {"run_id": RUN_ID}), 404, "run_not_found")
    assert post(admin_client, "cancel", {"run_id": RUN_ID}).json() == {"cancelled": True}
    thread.join(10)
    error_of(answers[0], 409, "draft_cancelled")
    assert not _running(superuser)


def _running(superuser: psycopg.Connection[Any]) -> bool:
    row = superuser.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid()"
        " AND query LIKE '%cancelled over HTTP%'"
    ).fetchone()
    return bool(row and row[0])


def test_the_latest_version_is_told_to_who_may_change_it(admin_client: Client, admin_user: User) -> None:
    endpoint = Endpoint.objects.get(name="logs.all")
    answer = admin_client.get(address("latest"), {"id": endpoint.pk}).json()
    assert answer["version"] == endpoint.version
    assert answer["compare"].endswith(f"/{endpoint.pk}/history/compare/?to={endpoint.version}")
    assert admin_client.get(answer["compare"]).status_code == 200
    error_of(admin_client.get(address("latest"), {"id": "none"}), 400, "invalid_request")
    error_of(admin_client.get(address("latest")), 404, "endpoint_not_found")
    error_of(admin_client.get(address("latest"), {"id": uuid.uuid4()}), 404, "endpoint_not_found")
    error_of(operator("view_endpoint").get(address("latest"), {"id": endpoint.pk}), 403, "not_permitted")
    error_of(Client().get(address("latest"), {"id": endpoint.pk}), 401, "not_logged_in")
    key = endpoint.pk
    endpoint.delete()
    error_of(admin_client.get(address("latest"), {"id": key}), 404, "endpoint_not_found")
