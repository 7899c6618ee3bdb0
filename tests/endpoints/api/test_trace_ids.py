"""A caller's trace id in the log lines of its request and in the session of its statement, and nowhere else."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections

from config.tracing import trace_id_of_request
from endpoints.access.access_tokens import issue_access_token
from endpoints.api import fast_path
from endpoints.api.fast_path import FastPath
from endpoints.api.slow_bodies import ReadingPlaces
from endpoints.api.slow_clients import HEADER_BYTES, SlowClients
from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from tests.config.test_tracing import INVALID, SPAN, TRACE

pytestmark = pytest.mark.django_db
SQL = "WITH t AS (SELECT 1 AS n) SELECT current_setting('application_name') AS name FROM t"
Ask = Callable[..., tuple[int, Any]]


Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def lines(capfd: pytest.CaptureFixture[str]) -> Lines:
    """The lines of requests that were written since the last look."""
    return lambda: [json.loads(line) for line in capfd.readouterr().err.splitlines() if "request_finished" in line]


@pytest.fixture
def ask(settings: Any, secret: str) -> Iterator[Ask]:
    """Ask the application as the web server does; an endpoint that answers with the name of its session."""
    settings.ALLOWED_HOSTS = ["logs.example.org"]
    fast_path._is_allowed_host.cache_clear()
    save_endpoint(Endpoint(name="session.name", sql=SQL, sandboxing=True), ())
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    places = ReadingPlaces(threads=4, body_seconds=10, bytes_per_second=1)
    application = SlowClients(FastPath(get_wsgi_application()), places)

    def ask(traceparent: str | None = None, *, query: str = "", method: str = "GET", **environ: Any) -> Any:
        said: list[Any] = []
        traced = {} if traceparent is None else {"HTTP_TRACEPARENT": traceparent}
        base = {
            "REQUEST_METHOD": method,
            "PATH_INFO": "/api/endpoints/query/session.name",
            "QUERY_STRING": query,
            "HTTP_HOST": "logs.example.org",
            "SERVER_NAME": "logs.example.org",
            "SERVER_PORT": "80",
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(),
            "HTTP_X_API_KEY": secret,
        }
        body = b"".join(application({**base, **traced, **environ}, lambda *arguments: said.extend(arguments)))
        return int(said[0][:3]), json.loads(body) if body else None

    yield ask
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)
    fast_path._is_allowed_host.cache_clear()


def name_of(answer: tuple[int, Mapping[str, Any]]) -> str:
    status, body = answer
    assert status == 200, body
    name: str = body["result"][0]["name"]
    return name


@pytest.mark.parametrize("method", ["GET", "POST"])  # before Django, and through it
def test_the_session_of_the_statement_has_the_name_of_the_trace(ask: Ask, method: str) -> None:
    own = name_of(ask(method=method))
    assert name_of(ask(f"00-{TRACE}-{SPAN}-01", method=method)) == f"trace={TRACE}"
    assert name_of(ask(method=method)) == own
    assert trace_id_of_request.get() == ""


def test_so_has_the_session_of_a_sandbox_query(ask: Ask, superuser: Any) -> None:
    query = "sql=select+n+from+t"
    assert ask(f"00-{TRACE}-{SPAN}-01", query=query) == (200, {"result": [{"n": 1}]})
    refused, body = ask(f"00-{TRACE}-{SPAN}-01", query="sql=select+set_config('application_name','x',false)+from+t")
    assert (refused, body["error"]["code"]) == (400, "sandbox_violation")
    names = superuser.execute("SELECT application_name FROM pg_stat_activity WHERE usename <> current_user").fetchall()
    assert not [name for (name,) in names if "trace" in name]


@pytest.mark.parametrize("what", INVALID)
def test_an_invalid_header_changes_nothing(ask: Ask, lines: Lines, what: str) -> None:
    assert name_of(ask(INVALID[what])) == name_of(ask())
    assert not [line for line in lines() if "trace_id" in line]


def test_the_log_line_of_a_call_has_both_ids(ask: Ask, lines: Lines) -> None:
    ask(f"00-{TRACE}-{SPAN}-00")
    ask()
    assert [(line.get("trace_id"), line.get("span_id")) for line in lines()] == [(TRACE, SPAN), (None, None)]


def test_so_has_the_line_of_a_failed_one_and_of_one_that_django_answers(
    ask: Ask, lines: Lines, caplog: pytest.LogCaptureFixture
) -> None:
    traceparent = f"00-{TRACE}-{SPAN}-01"
    assert ask(traceparent, HTTP_X_API_KEY="lqe_0")[0] == 401
    assert [line["trace_id"] for line in lines()] == [TRACE]
    ask(traceparent, method="POST")
    ask(traceparent, HTTP_X_NOTE="x" * (HEADER_BYTES + 1))
    ids = {record.msg["event"]: record.msg.get("trace_id") for record in caplog.records if isinstance(record.msg, dict)}
    assert [line["trace_id"] for line in lines()] == [ids["request_refused"]] == [TRACE]
    ask(method="POST")
    assert ["trace_id" in line for line in lines()] == [False]


def test_a_trace_does_not_get_around_what_an_access_token_may_see(ask: Ask) -> None:
    limited = issue_access_token(name="limited", may_load=True, no_endpoints=True).secret
    status, body = ask(f"00-{TRACE}-{SPAN}-01", HTTP_X_API_KEY=limited)
    assert (status, body["error"]["code"]) == (404, "endpoint_not_found")
