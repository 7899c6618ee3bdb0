"""Spans for a collector of OpenTelemetry: each request, its look-up in the cache, its statements. Off by default.

Only a process with ENDPOINTS_SPANS imports this module, which needs the extra `otel`. Spans follow the semantic
conventions of HTTP servers and of databases. None has an argument, SQL, a row value, an address or the text of an
exception, which may quote any of them. A thread of the SDK's sends them in batches (OTLP over HTTP); those that do not
fit into its queue are dropped, so a collector that hangs delays no call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.util import Finalize
from typing import Any, Final

import orjson
from opentelemetry import context, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, SpanKind, StatusCode, TraceFlags, TraceState

from config import tracing
from config.tracing import HEADER, TraceParent, read_traceparent

Application = Callable[[dict[str, Any], Any], Iterable[bytes]]

SERVICE_NAME: Final = "log-query-endpoints"
MAX_TRACESTATE_CHARACTERS: Final = 512  # so many must be passed on at least (W3C Trace Context, section 3.3.1.5)
_TRACESTATE: Final = "HTTP_TRACESTATE"
_STOPPING_PRIORITY: Final = 10  # any number: without one a finalizer is not called at the end of a process
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"})
# The first that matches names the span: few names, whatever clients ask for.
_ROUTES: Final = (
    (re.compile(r"(?:/api)?/endpoints/query/"), "/api/endpoints/query/{endpoint}"),
    (re.compile(r"/api/endpoints/cache/"), "/api/endpoints/cache/{endpoint}"),
    (re.compile(r"/admin(?:/|$)"), "/admin/"),
    (re.compile(r"(?:/api)?/logs(?:/json)?/?$"), "/api/logs"),
    (re.compile(r"/v1/logs/?$"), "/v1/logs"),
    (re.compile(r"/api/openapi\.json/?$"), "/api/openapi.json"),
)
_PROBES: Final = re.compile(r"/(?:livez|health|readyz|metrics)/?")  # they would be most of the spans
# Headers of an answer that tell of it, and the attribute that has them.
_TOLD: Final[Mapping[str, str]] = {
    "X-Request-ID": "endpoints.request_id",
    "X-Cache": "endpoints.cache",
    "X-Result-Rows": "endpoints.rows",
}


def observe(application: Application, *, version: str) -> Application:
    """Return the application with spans, exported as the standard variables OTEL_… say, from this process on."""
    named = {"service.name": SERVICE_NAME, "service.version": version}
    # What the operator has named comes first: OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES.
    resource = Resource.create({**named, **OTELResourceDetector().detect().attributes})
    processor = BatchSpanProcessor(OTLPSpanExporter())
    spans = Spans(processor, resource)
    # The web server's processes are forked, and end without atexit.
    Finalize(None, spans.end, exitpriority=_STOPPING_PRIORITY)
    tracing.observer = spans
    return ObservedRequests(application, spans)


class Spans:
    """Makes spans in the current thread's context: the `Observer` of `config.tracing`."""

    def __init__(self, processor: SpanProcessor, resource: Resource) -> None:
        # Its sampler is OTEL_TRACES_SAMPLER's; by default the caller's flag decides, and without a caller all are.
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self.tracer = self._provider.get_tracer(SERVICE_NAME)

    def end(self) -> None:
        """Send what is left."""
        self._provider.shutdown()

    @contextmanager
    def span(self, name: str) -> Iterator[Callable[..., None]]:
        with self._current(name, SpanKind.INTERNAL, {}) as span:
            yield lambda **attributes: span.set_attributes(_named(attributes))

    @contextmanager
    def statement(self, connection: Any) -> Iterator[None]:
        server = connection.info
        attributes = {
            "db.system.name": "postgresql",
            "db.namespace": server.dbname,
            "db.operation.name": "SELECT",
            "server.address": server.host,
            "server.port": server.port,
        }
        with self._current(f"SELECT {server.dbname}", SpanKind.CLIENT, attributes):
            yield

    def note(self, **attributes: str | int) -> None:
        trace.get_current_span().set_attributes(_named(attributes))

    @contextmanager
    def _current(self, name: str, kind: SpanKind, attributes: Mapping[str, str | int]) -> Iterator[Span]:
        if not trace.get_current_span().get_span_context().is_valid:
            yield trace.INVALID_SPAN  # a probe's statement, or one of a thread of the service's own, is of no request
            return
        with self.tracer.start_as_current_span(
            name, kind=kind, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except BaseException as error:
                _note_failure(span, error)
                raise


class ObservedRequests:
    """A WSGI application around all others: a span of each request, the current one while it is answered.

    An answer that is given later (config.exchanges) is over for its span when the thread gives it away.
    """

    def __init__(self, application: Application, spans: Spans) -> None:
        self._application = application
        self._spans = spans

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if _PROBES.fullmatch(path):
            return self._application(environ, start_response)
        span = self._start(environ, path)
        token = context.attach(trace.set_span_in_context(span))
        answered: list[Any] = []

        def keep(*arguments: Any) -> Any:
            answered[:] = arguments
            return start_response(*arguments)

        try:
            body = self._application(environ, keep)
            if span.is_recording() and answered:
                _note_answer(span, int(answered[0][:3]), answered[1], body)
            return body
        except BaseException as error:
            _note_failure(span, error)
            raise
        finally:
            context.detach(token)
            span.end()

    def _start(self, environ: dict[str, Any], path: str) -> Span:
        method = environ["REQUEST_METHOD"] if environ["REQUEST_METHOD"] in _METHODS else "_OTHER"
        attributes = {"http.request.method": method, "url.scheme": environ["wsgi.url_scheme"]}
        route = next((route for pattern, route in _ROUTES if pattern.match(path)), "")
        if route:
            attributes |= {"http.route": route, "url.path": path}
        name = f"{method} {route}" if route else method
        span = self._spans.tracer.start_span(
            name, context=_parent(environ), kind=SpanKind.SERVER, attributes=attributes
        )
        if span.is_recording():
            # Everything behind reads this header: log lines and statements then have the ids of this span.
            environ[HEADER] = str(_as_traceparent(span.get_span_context()))
        return span


def _parent(environ: Mapping[str, Any]) -> context.Context:
    parent = read_traceparent(environ.get(HEADER, ""))
    if parent is None:
        return context.Context()  # an empty one: the thread's own may have a span that is not this request's
    sent = environ.get(_TRACESTATE, "")
    state = TraceState.from_header([sent]) if len(sent) <= MAX_TRACESTATE_CHARACTERS else TraceState()
    remote = SpanContext(
        int(parent.trace_id, 16),
        int(parent.span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(TraceFlags.SAMPLED if parent.is_sampled else TraceFlags.DEFAULT),
        trace_state=state,
    )
    return trace.set_span_in_context(NonRecordingSpan(remote), context.Context())


def _as_traceparent(span: SpanContext) -> TraceParent:
    return TraceParent(
        trace.format_trace_id(span.trace_id), trace.format_span_id(span.span_id), span.trace_flags.sampled
    )


def _named(attributes: Mapping[str, str | int]) -> dict[str, str | int]:
    return {f"endpoints.{name}": value for name, value in attributes.items()}


def _note_answer(span: Span, status: int, headers: Iterable[tuple[str, str]], body: Iterable[bytes]) -> None:
    span.set_attribute("http.response.status_code", status)
    for name, value in headers:
        if name in _TOLD:
            span.set_attribute(_TOLD[name], int(value) if value.isdecimal() and name == "X-Result-Rows" else value)
    if status < 400:
        return
    code = _error_code(body) or str(status)
    span.set_attribute("endpoints.error", code)
    if status >= 500:  # a refused request is no failure of this service
        span.set_attribute("error.type", code)
        span.set_status(StatusCode.ERROR)


def _error_code(body: Iterable[bytes]) -> str:
    """Return the code in the one error body, "" for another one, such as a page of the admin."""
    if not isinstance(body, list):
        return ""
    try:
        return str(orjson.loads(b"".join(body))["error"]["code"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return ""


def _note_failure(span: Span, error: BaseException) -> None:
    """Note the kind of an exception and PostgreSQL's SQLSTATE, never its text."""
    span.set_status(StatusCode.ERROR)
    span.set_attribute("error.type", type(error).__qualname__)
    if sqlstate := getattr(error, "sqlstate", None):
        span.set_attribute("db.response.status_code", str(sqlstate))
