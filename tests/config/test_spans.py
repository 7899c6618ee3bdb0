"""Spans of requests: their names, parents and attributes, and what must never be in one."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import pytest
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from config import tracing
from config.exchanges import LaterAnswer
from config.spans import Application, make_spans
from endpoints.api import fast_path
from endpoints.api.fast_path import FastPath
from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter
from tests.config.test_tracing import SPAN, TRACE
from tests.files import PROJECT

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("living_log_database")]
ARGUMENT: Final = "value-of-an-argument"
SQL: Final = "WITH t AS (SELECT 'value-of-a-row' AS a, 1 / (length(@text) - 3) AS n) SELECT a, n FROM t"
Ask = Callable[..., tuple[int, bytes]]


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    monkeypatch.setattr(tracing, "statement", None)  # which `make_spans` sets
    yield exporter
    exporter.shutdown()


def with_spans(application: Application, exporter: InMemorySpanExporter) -> Application:
    provider = TracerProvider(resource=Resource({}), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return make_spans(application, provider)


@pytest.fixture
def ask(settings: Any, secret: str, exporter: InMemorySpanExporter) -> Iterator[Ask]:
    settings.ALLOWED_HOSTS = ["logs.example.org"]
    fast_path._is_allowed_host.cache_clear()
    for name, cache_seconds in (("plain", 0), ("cached", 60)):
        endpoint = Endpoint(name=name, sql=SQL, sandboxing=True, cache_seconds=cache_seconds)
        save_endpoint(endpoint, [DeclaredParameter("text", default="four")])
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    application = with_spans(FastPath(get_wsgi_application()), exporter)

    def ask(path: str = "/api/endpoints/query/plain", *, query: str = "", **environ: Any) -> tuple[int, bytes]:
        said: list[Any] = []
        base = {
            "REQUEST_METHOD": "GET",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "HTTP_HOST": "logs.example.org",
            "SERVER_NAME": "logs.example.org",
            "SERVER_PORT": "80",
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(),
            "HTTP_X_API_KEY": secret,
        }
        body = b"".join(application({**base, **environ}, lambda *arguments: said.extend(arguments)))
        return int(said[0][:3]), body

    yield ask
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)
    fast_path._is_allowed_host.cache_clear()


def spans_of(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    """Return what was exported by name; a request makes each name once."""
    finished = exporter.get_finished_spans()
    exporter.clear()
    named = {span.name.partition(" ")[0]: span for span in finished}
    assert len(named) == len(finished)
    return named


def attributes_of(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


@pytest.mark.parametrize("method", ["GET", "POST"])  # before Django, and through it
def test_a_call_is_a_span_of_a_server_around_that_of_its_statement(
    ask: Ask, exporter: InMemorySpanExporter, method: str
) -> None:
    assert ask(REQUEST_METHOD=method, HTTP_X_REQUEST_ID="one")[0] == 200
    spans = spans_of(exporter)
    request, statement = spans[method], spans["SELECT"]
    assert set(spans) == {method, "SELECT"}
    assert request.name == f"{method} /api/endpoints/query/{{endpoint}}"
    assert (request.kind, request.parent, request.status.status_code) == (SpanKind.SERVER, None, StatusCode.UNSET)
    assert attributes_of(request) == {
        "http.request.method": method,
        "http.response.status_code": 200,
        "url.path": "/api/endpoints/query/{endpoint}",
        "url.scheme": "http",
    }
    assert (statement.kind, statement.parent) == (SpanKind.CLIENT, request.context)
    assert attributes_of(statement)["db.system.name"] == "postgresql"
    assert {"db.namespace", "server.address", "server.port"} < set(attributes_of(statement))


def test_a_result_from_the_cache_has_no_span_of_a_statement(ask: Ask, exporter: InMemorySpanExporter) -> None:
    seen = []
    for _ in range(2):
        assert ask("/api/endpoints/query/cached")[0] == 200
        seen.append(set(spans_of(exporter)))
    assert seen == [{"GET", "SELECT"}, {"GET"}]


def test_a_caller_that_samples_is_the_parent(ask: Ask, exporter: InMemorySpanExporter) -> None:
    ask(HTTP_TRACEPARENT=f"00-{TRACE}-{SPAN}-01", HTTP_TRACESTATE="congo=t61rcWkgMzE,rojo=00f067aa0ba902b7")
    spans = spans_of(exporter)
    parent, own = spans["GET"].parent, spans["GET"].context
    assert parent is not None
    assert own is not None
    assert (f"{parent.trace_id:032x}", f"{parent.span_id:016x}", parent.is_remote) == (TRACE, SPAN, True)
    assert f"{own.trace_id:032x}" == TRACE
    assert dict(own.trace_state) == {"congo": "t61rcWkgMzE", "rojo": "00f067aa0ba902b7"}


def test_a_caller_that_does_not_sample_gets_no_spans(ask: Ask, exporter: InMemorySpanExporter) -> None:
    assert ask(HTTP_TRACEPARENT=f"00-{TRACE}-{SPAN}-00")[0] == 200
    assert spans_of(exporter) == {}


@pytest.mark.parametrize("state", ["not a state", "a=1,a=1,=", "x" * 20_000, "a=" + "b" * 600])
def test_an_invalid_tracestate_is_dropped_and_not_logged(
    ask: Ask, exporter: InMemorySpanExporter, caplog: pytest.LogCaptureFixture, state: str
) -> None:
    assert ask(HTTP_TRACEPARENT=f"00-{TRACE}-{SPAN}-01", HTTP_TRACESTATE=state)[0] == 200
    own = spans_of(exporter)["GET"].context
    assert own is not None
    assert f"{own.trace_id:032x}" == TRACE
    assert state not in caplog.text


@pytest.mark.parametrize(
    ("query", "token", "status", "is_failure"),
    [
        ("text=abc", None, 500, True),  # division by zero
        ("sql=select+oid+from+pg_class", None, 400, False),
        ("", "lqe_0", 401, False),
    ],
)
def test_a_refused_request_is_no_error_of_the_service(
    ask: Ask, exporter: InMemorySpanExporter, query: str, token: str | None, status: int, is_failure: bool
) -> None:
    sent = {} if token is None else {"HTTP_X_API_KEY": token}
    assert ask(query=query, **sent)[0] == status
    request = spans_of(exporter)["GET"]
    assert attributes_of(request)["http.response.status_code"] == status
    assert (request.status.status_code is StatusCode.ERROR) is is_failure


def test_a_failed_statement_has_its_sqlstate_and_no_text(ask: Ask, exporter: InMemorySpanExporter) -> None:
    ask(query="text=abc")
    statement = spans_of(exporter)["SELECT"]
    assert attributes_of(statement)["db.response.status_code"] == "22012"
    assert (statement.status.status_code, statement.status.description, statement.events) == (
        StatusCode.ERROR,
        None,
        (),
    )


@pytest.mark.parametrize("query", [f"text={ARGUMENT}", "sql=select+a+from+t", "lql=s:a", f"text=abc&note={ARGUMENT}"])
def test_no_span_tells_arguments_sql_rows_or_secrets(
    ask: Ask, exporter: InMemorySpanExporter, secret: str, query: str
) -> None:
    ask(query=query, HTTP_USER_AGENT="of a person", REMOTE_ADDR="192.0.2.7", HTTP_COOKIE="sessionid=abcdef")
    told = "".join(span.to_json() for span in exporter.get_finished_spans())
    for hidden in (ARGUMENT, "value-of-a-row", "1 / (length", "from t", secret, "of a person", "192.0.2.7", "abcdef"):
        assert hidden not in told


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/endpoints/query/plain", "GET /api/endpoints/query/{endpoint}"),
        ("/api/endpoints/query/name/plain/", "GET /api/endpoints/query/{endpoint}"),
        ("/api/endpoints/cache/plain", "GET /api/endpoints/cache/{endpoint}"),
        ("/v1/logs", "GET /v1/logs"),
        ("/admin/login/", "GET /admin/"),
        ("/some-secret-in-a-path", "GET"),
        ("/" + "x" * 20_000, "GET"),
    ],
)
def test_names_are_few(ask: Ask, exporter: InMemorySpanExporter, path: str, name: str) -> None:
    ask(path)
    (request,) = (span for span in exporter.get_finished_spans() if span.kind is SpanKind.SERVER)
    assert request.name == name
    assert attributes_of(request).get("url.path", "") == name.removeprefix("GET").lstrip()


@pytest.mark.parametrize("path", ["/livez", "/health/", "/readyz", "/metrics"])
def test_probes_have_none(ask: Ask, exporter: InMemorySpanExporter, path: str) -> None:
    ask(path)
    assert exporter.get_finished_spans() == ()


def test_a_method_that_nobody_knows_names_no_span(exporter: InMemorySpanExporter) -> None:
    application = with_spans(lambda environ, start: [start("405 No", []) or b""], exporter)
    environ = {"REQUEST_METHOD": "SECRET-1", "PATH_INFO": "/", "wsgi.url_scheme": "http"}
    assert application(environ, lambda *_: None) == [b""]
    (span,) = exporter.get_finished_spans()
    assert span.name == "HTTP"
    assert "SECRET" not in span.to_json()


class _Later(LaterAnswer):
    def deliver(self, exchange: Any, status: int, headers: Any) -> None:
        raise NotImplementedError

    def __iter__(self) -> Iterator[bytes]:
        yield b"rows"


def test_an_answer_that_is_given_later_is_handed_on_as_it_is(exporter: InMemorySpanExporter) -> None:
    later = _Later()

    def application(environ: Any, start: Any) -> Iterable[bytes]:
        start("200 OK", [])
        return later

    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/", "wsgi.url_scheme": "http"}
    assert with_spans(application, exporter)(environ, lambda *_: None) is later
    assert len(exporter.get_finished_spans()) == 1


def test_an_exception_leaves_the_thread_without_a_span(exporter: InMemorySpanExporter) -> None:
    def fail(environ: Any, start: Any) -> Iterable[bytes]:
        raise RuntimeError(ARGUMENT)

    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/", "wsgi.url_scheme": "http"}
    with pytest.raises(RuntimeError):
        with_spans(fail, exporter)(environ, lambda *_: None)
    assert not get_current_span().get_span_context().is_valid
    (span,) = exporter.get_finished_spans()
    assert attributes_of(span)["error.type"] == "RuntimeError"
    assert ARGUMENT not in span.to_json()


# --- The setting ------------------------------------------------------------------------------------------------------
LOADED: Final = "import sys, config.wsgi; print(sorted(set(sys.modules) & {'opentelemetry.sdk.trace', 'config.spans'}))"


def load(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"DEBUG": "true", "ENDPOINTS_LOCAL_DIR": "/nonexistent", **variables}
    return subprocess.run(
        [sys.executable, "-c", program], cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=250
    )


def test_a_process_without_the_setting_imports_nothing_of_it() -> None:
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}  # an address alone switches nothing on
    assert load(LOADED, **endpoint).stdout == "[]\n"
    assert load(LOADED, ENDPOINTS_SPANS="true").stdout == "['config.spans', 'opentelemetry.sdk.trace']\n"


def test_the_setting_without_the_packages_says_what_to_install() -> None:
    without = "import sys; sys.modules['opentelemetry.sdk'] = None; import config.settings"
    loaded = load(without, ENDPOINTS_SPANS="true")
    assert loaded.returncode != 0
    assert "install those of requirements.lock" in loaded.stderr
