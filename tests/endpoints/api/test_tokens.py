"""POST /api/tokens: what an access token may pass on to a browser; and no way around the walls with the result."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from endpoints.access.access_tokens import issue_access_token
from endpoints.access.browser_tokens import LONGEST_SECONDS, MAX_CHARACTERS, authenticate_browser_token
from endpoints.access.secrets import OwnLimits
from endpoints.access.token_limits import turn
from endpoints.calling.calls import endpoint_use
from endpoints.defining.saving import save_endpoint
from endpoints.errors import NotAuthenticated
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from tests.conftest import ApiClient
from tests.endpoints.api.conftest import Ask

pytestmark = pytest.mark.django_db
TOKENS = "/api/tokens"


@pytest.fixture
def rows(insert_rows: Callable[[str, Sequence[Any]], None]) -> None:
    """One row of each of two projects, with an address in it."""
    insert_rows(
        "edge_logs",
        [
            {"project": project, "timestamp": "2026-11-23T00:00:00Z", "event_message": f"{project} ann@example.org"}
            for project in ("acme", "globex")
        ],
    )


@pytest.fixture
def typed() -> Endpoint:
    parameters = [DeclaredParameter("project"), DeclaredParameter("level", type=ParameterType.INTEGER, maximum="9")]
    return save_endpoint(Endpoint(name="test.typed", sql="SELECT @project AS project, @level AS level"), parameters)


def issuer(**options: Any) -> str:
    return issue_access_token(name="shop backend", may_issue=True, **options).secret


def ask_for(secret: str, body: Any, *, content_type: str = "application/json", method: str = "post") -> Any:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Client(headers={"X-API-KEY": secret}).generic(method.upper(), TOKENS, sent, content_type)


def token_of(answer: Any) -> str:
    assert answer.status_code == 200, answer.content
    (issued,) = answer.json()["result"]
    return str(issued["token"])


def browser(secret: str | None = None, **body: Any) -> ApiClient:
    """Return a client that calls with a new browser token for logs.all and acme, if nothing else is asked for."""
    wanted = {"endpoints": ["logs.all"], "arguments": {"project": "acme"}, **body}
    return ApiClient(token_of(ask_for(secret or issuer(), wanted)))


def messages(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.content
    return [row["event_message"] for row in answer.json()["result"]]


def code(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


# --- Issuing ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("header", ["X-API-KEY", "Authorization"])
def test_a_token_is_issued_and_calls(rows: None, header: str) -> None:
    answer = ask_for(issuer(), {"endpoints": ["logs.all"], "arguments": {"project": "acme"}})
    token = token_of(answer)
    assert answer["Cache-Control"] == "no-store"
    client = Client(headers={header: f"Bearer {token}" if header == "Authorization" else token})
    assert messages(client.get("/api/endpoints/query/logs.all")) == ["acme ann@example.org"]
    answer = client.post("/api/endpoints/query/logs.all", {"project": "acme"}, "application/json")
    assert messages(answer) == ["acme ann@example.org"]


@pytest.mark.parametrize(("sent", "seconds"), [({}, 3600), ({"expires_in": 1}, 1), ({"expires_in": 86_400}, 86_400)])
def test_it_ends_when_the_answer_says_so(sent: dict[str, int], seconds: int) -> None:
    before = timezone.now().replace(microsecond=0)
    answer = ask_for(issuer(), {"endpoints": ["logs.all"], **sent})
    (issued,) = answer.json()["result"]
    end = datetime.fromisoformat(issued["expires_at"])
    assert before <= end - timedelta(seconds=seconds) <= timezone.now()
    assert authenticate_browser_token(token_of(answer), now=end - timedelta(seconds=0.5))
    with pytest.raises(NotAuthenticated):
        authenticate_browser_token(token_of(answer), now=end)


def test_it_ends_with_its_issuer_at_the_latest() -> None:
    end = timezone.now() + timedelta(minutes=10)
    answer = ask_for(issuer(expires_at=end), {"endpoints": ["logs.all"], "expires_in": 86_400})
    assert datetime.fromisoformat(answer.json()["result"][0]["expires_at"]) == end.replace(microsecond=0)


def test_it_has_the_bonds_of_its_issuer_besides_its_own(typed: Endpoint) -> None:
    secret = issuer(bound_arguments={"project": "acme"})
    client = browser(secret, endpoints=["test.typed"], arguments={"level": "5"})
    assert client.query("test.typed").json()["result"] == [{"project": "acme", "level": 5}]
    assert code(client.query("test.typed", {"project": "globex"})) == (403, "argument_not_allowed")
    assert code(client.query("test.typed", {"level": "6"})) == (403, "argument_not_allowed")


def test_an_issuer_is_bound_also_in_what_it_issues(typed: Endpoint) -> None:
    secret = issuer(bound_arguments={"project": "acme", "level": "7"})
    body = {"endpoints": ["test.typed"], "arguments": {"project": "globex"}}
    assert code(ask_for(secret, body)) == (403, "argument_not_allowed")
    body = {"endpoints": ["test.typed"], "arguments": {"level": "8"}}
    assert code(ask_for(secret, body)) == (403, "argument_not_allowed")
    # Compared after typing, like the argument of a call; then the issuer's own text is kept.
    token = token_of(ask_for(secret, {"endpoints": ["test.typed"], "arguments": {"level": "007"}}))
    assert authenticate_browser_token(token).bound_arguments == {"project": "acme", "level": "7"}
    assert ApiClient(token).query("test.typed").status_code == 200


def test_endpoints_are_named_by_name_or_uuid(typed: Endpoint) -> None:
    client = browser(endpoints=["test.typed", str(typed.pk)], arguments={})
    assert client.query("test.typed").status_code == 200
    assert code(client.query("logs.all", {"project": "acme"})) == (404, "endpoint_not_found")


def test_an_endpoint_that_the_issuer_may_not_call_is_not_found(typed: Endpoint) -> None:
    secret = issuer(endpoint_names=["logs.all"])
    for name in ("test.typed", "unknown", "", "\0", "a" * 500):
        answer = ask_for(secret, {"endpoints": ["logs.all", name]})
        assert code(answer) == (404, "endpoint_not_found")
        (detail,) = answer.json()["error"]["details"]
        assert detail["name"] == name
    bound = issuer(bound_arguments={"level": "5"})
    assert code(ask_for(bound, {"endpoints": ["logs.all"]})) == (404, "endpoint_not_found")


def test_arguments_that_an_endpoint_does_not_take_are_all_listed(typed: Endpoint) -> None:
    arguments = {"level": "10", "project": "", "nothing": "a"}
    answer = ask_for(issuer(), {"endpoints": ["test.typed"], "arguments": arguments})
    assert code(answer) == (400, "invalid_parameters")
    assert sorted(detail["name"] for detail in answer.json()["error"]["details"]) == sorted(arguments)


def test_only_an_access_token_that_may_issue_does() -> None:
    secret = issue_access_token(name="reader").secret
    assert code(ask_for(secret, {"endpoints": ["logs.all"]})) == (403, "issue_not_allowed")
    assert code(ask_for(secret, b"not even JSON")) == (403, "issue_not_allowed")
    assert code(ask_for("", {"endpoints": ["logs.all"]})) == (401, "not_authenticated")


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({}, ["endpoints"]),
        ({"endpoints": []}, ["endpoints"]),
        ({"endpoints": "logs.all"}, ["endpoints"]),
        ({"endpoints": [5]}, ["endpoints"]),
        ({"endpoints": None}, ["endpoints"]),
        ({"endpoints": ["logs.all"] * 51}, ["endpoints"]),
        ({"endpoints": ["logs.all"], "arguments": {"project": 5}}, ["arguments"]),
        ({"endpoints": ["logs.all"], "arguments": ["project"]}, ["arguments"]),
        ({"endpoints": ["logs.all"], "expires_in": 0}, ["expires_in"]),
        ({"endpoints": ["logs.all"], "expires_in": -5}, ["expires_in"]),
        ({"endpoints": ["logs.all"], "expires_in": LONGEST_SECONDS + 1}, ["expires_in"]),
        ({"endpoints": ["logs.all"], "expires_in": 10**30}, ["expires_in"]),
        ({"endpoints": ["logs.all"], "expires_in": 60.5}, ["expires_in"]),
        ({"endpoints": ["logs.all"], "expires_in": True}, ["expires_in"]),
        ({"endpoints": ["logs.all"], "expires_in": "3600"}, ["expires_in"]),
        ({"endpoints": ["logs.all"], "expires_in": None}, ["expires_in"]),
        ({"endpoints": ["logs.all"], "signing_key": "dashboard"}, ["signing_key"]),
        ({"endpoints": ["logs.all"], "may_purge": True, "limits": {}}, ["limits", "may_purge"]),
        ({"arguments": 1, "expires_in": "x", "other": 1}, ["arguments", "endpoints", "expires_in", "other"]),
    ],
)
def test_a_body_that_asks_for_what_cannot_be_says_where(body: Any, names: list[str]) -> None:
    answer = ask_for(issuer(), body)
    assert code(answer) == (400, "invalid_request")
    assert [detail["name"] for detail in answer.json()["error"]["details"]] == names


@pytest.mark.parametrize("body", [b" ", b"{", b"[]", b"null", b'"a"', b"\xff", b'{"endpoints": NaN}', b"[" * 5000])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    assert code(ask_for(issuer(), body)) == (400, "invalid_request")


def test_a_token_that_would_be_too_long_is_not_issued() -> None:
    answer = ask_for(issuer(), {"endpoints": ["logs.all"], "arguments": {"project": " ".join(map(str, range(10_000)))}})
    assert code(answer) == (400, "invalid_request")
    assert str(MAX_CHARACTERS) in answer.json()["error"]["message"]


def test_fifty_endpoints_fit(typed: Endpoint) -> None:
    names = [f"test.number-{number}" for number in range(50)]
    for name in names:
        save_endpoint(Endpoint(name=name, sql="SELECT 1 AS one"), [])
    assert ApiClient(token_of(ask_for(issuer(), {"endpoints": names}))).query(names[-1]).status_code == 200


def test_other_content_types_and_methods_are_refused() -> None:
    assert code(ask_for(issuer(), b"endpoints=logs.all", content_type="application/x-www-form-urlencoded"))[0] == 415
    for method in ("get", "put", "delete", "patch"):
        assert code(ask_for(issuer(), {}, method=method)) == (405, "method_not_allowed")
    assert ask_for("", {}, method="options").status_code == 204
    assert code(ask_for("", {}, method="get")) == (401, "not_authenticated")


def test_issuing_counts_as_a_call() -> None:
    secret = issuer(limits=OwnLimits(calls_a_minute=2))
    answers = [ask_for(secret, {"endpoints": ["logs.all"]}).status_code for _ in range(3)]
    assert answers == [200, 200, 429]


def test_the_whole_way_reads_the_body(ask: Ask) -> None:
    body = json.dumps({"endpoints": ["logs.all"]}).encode()
    status, headers, answer = ask("", path=TOKENS, method="POST", body=body, x_api_key=issuer())
    assert (status, headers["Cache-Control"]) == (200, "no-store")
    token = json.loads(answer)["result"][0]["token"]
    assert ask("project=acme", path="/api/endpoints/query/logs.all", x_api_key=token)[0] == 200
    assert ask("project=acme", path="/api/endpoints/query/logs.all", authorization=f"Bearer {token}")[0] == 200


# --- Around the walls -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("post", TOKENS),
        ("delete", "/api/endpoints/cache/logs.all"),
        ("post", "/api/logs?source=edge_logs"),
        ("post", "/v1/logs"),
    ],
)
def test_a_browser_token_only_calls(method: str, path: str) -> None:
    secret = issuer(may_purge=True, may_load=True)
    client = browser(secret)
    answer = getattr(client, method)(path, b'{"endpoints": ["logs.all"]}', "application/json")
    assert answer.status_code == 403


@pytest.mark.parametrize(
    ("query", "seen"),
    [
        ({"project": "globex"}, 403),
        ({"project": "acme' or 'a'='a"}, 403),
        ({"project": ["acme", "globex"]}, 400),
        ({"Project": "globex"}, "acme ann"),
        ({"sql": "select event_message from edge_logs"}, "acme ann"),
        ({"sql": "select event_message from edge_logs where project = 'globex'"}, 400),
        ({"sql": "select event_message from logs.edge_logs"}, 400),
        ({"sql": "select set_config('lqe.tenant', 'globex', false), event_message from edge_logs"}, 400),
        ({"lql": "s:event_message"}, "acme ann"),
        ({"lql": "globex s:event_message"}, '"result":[]'),
    ],
)
@pytest.mark.parametrize("method", ["get", "post"])
def test_no_row_of_another_project_is_seen(rows: None, query: dict[str, Any], seen: int | str, method: str) -> None:
    client = browser()
    path = "/api/endpoints/query/logs.all"
    answer = client.get(path, query) if method == "get" else client.post(path, query, "application/json")
    assert b"globex ann" not in answer.content
    if isinstance(seen, int):
        assert answer.status_code == seen
    else:
        assert answer.status_code == 200
        assert seen in answer.content.decode()


def test_redaction_stays_on(rows: None) -> None:
    endpoint = Endpoint.objects.get(name="logs.all")
    endpoint.redact_pii = True
    save_endpoint(endpoint, [parameter.declared() for parameter in endpoint.parameters.all()])
    client = browser()
    assert messages(client.query("logs.all", svc_endpoint_redact_pii="false")) == ["acme REDACTED"]


def test_limits_are_shared_with_the_issuer_and_all_that_it_issued() -> None:
    secret = issuer(limits=OwnLimits(calls_a_minute=4))
    clients = [browser(secret), browser(secret), ApiClient(secret)]  # two calls so far
    answers = [client.query("logs.all", {"project": "acme"}).status_code for client in clients]
    assert answers == [200, 200, 429]


def test_a_query_of_one_visitor_that_overruns_pauses_no_other_visitor(settings: Any) -> None:
    settings.ENDPOINTS_POOL_WAIT_SECONDS = 20.0  # a turn is free once PostgreSQL has stopped the query before
    Endpoint.objects.filter(name="logs.all").update(statement_timeout_seconds=1)
    secret = issuer()
    heavy, visitor, third = (browser(secret) for _ in range(3))  # within one second, with the same claims
    backend = ApiClient(secret)
    slow = "select count(*) as n from generate_series(1, 100000) a, generate_series(1, 100000) b"
    assert code(heavy.query("logs.all", {"sql": slow})) == (504, "query_timeout")
    for sent in ({"sql": "select 1 as n"}, {"lql": "c:count(*)"}):
        assert code(heavy.query("logs.all", sent)) == (429, "sandbox_suspended")
        for other in (visitor, third, backend):
            assert other.query("logs.all", {"project": "acme", **sent}).status_code == 200
    assert heavy.query("logs.all").status_code == 200
    assert code(backend.query("logs.all", {"project": "acme", "sql": slow})) == (504, "query_timeout")
    assert code(backend.query("logs.all", {"project": "acme", "sql": "select 1"})) == (429, "sandbox_suspended")
    assert visitor.query("logs.all", {"sql": "select 1 as n"}).status_code == 200


def test_visitors_share_what_may_run_at_the_same_time(settings: Any) -> None:
    settings.ENDPOINTS_POOL_WAIT_SECONDS = 0.0
    secret = issuer(limits=OwnLimits(sandbox_queries_at_once=1))
    first, second = browser(secret), browser(secret)
    caller = authenticate_browser_token(first.defaults["HTTP_X_API_KEY"])
    with turn(caller, is_sandbox_query=True, statement_seconds=15):
        assert code(second.query("logs.all", {"sql": "select 1"})) == (429, "too_many_sandbox_queries")


def test_the_openapi_document_shows_only_its_endpoints() -> None:
    document = browser().get("/api/openapi.json").content.decode()
    assert "logs.all" in document
    assert "usage.api-counts" not in document


@pytest.mark.parametrize("in_address", [True, False])
def test_in_an_address_it_counts_nothing(ask: Ask, settings: Any, in_address: bool) -> None:
    settings.ENDPOINTS_API_KEY_IN_ADDRESS = in_address
    body = json.dumps({"endpoints": ["logs.all"]}).encode()
    answer = ask("", path=TOKENS, method="POST", body=body, x_api_key=issuer())
    token = json.loads(answer[2])["result"][0]["token"]
    for name in ("api_key", "access_token", "token"):
        assert ask(f"{name}={token}&project=acme", path="/api/endpoints/query/logs.all")[0] == 401


def test_a_token_is_never_logged(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    with caplog.at_level(logging.DEBUG):
        token = token_of(ask_for(issuer(), {"endpoints": ["logs.all"]}))
        for sent in (token, f"{token}x", f"{token[:-20]}.{token[-20:]}"):
            for argument in ("acme", "\0"):
                ApiClient(sent).query("logs.all", {"project": argument})
    logged = " ".join(f"{record.msg} {record.args} {record.exc_text}" for record in caplog.records)
    written = logged + "".join(capfd.readouterr())
    assert "shop backend / browser" in written
    assert "browser_token_issued" in written
    parts = [part for part in token.split(".") if len(part) > 20]
    assert len(parts) == 2  # what it says, and its signature
    assert not [part for part in parts if part in written]


def test_a_call_is_remembered_under_the_issuers_name(rows: None) -> None:
    client = browser()
    assert client.query("logs.all").status_code == 200
    (call,) = endpoint_use(Endpoint.objects.get(name="logs.all"), last_calls=5).last_calls
    assert call.access_token == "shop backend / browser"
