"""Spans for a collector of OpenTelemetry: of requests by its WSGI instrumentation, of statements by the service.

Only a process with ENDPOINTS_SPANS imports this module, which needs the extra `otel`. No span has an argument, SQL, a
row value, an address or the text of an exception, which may quote any of them. A thread of the SDK's sends them in
batches (OTLP over HTTP); those that do not fit into its queue are dropped, so a collector that hangs delays no call.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.util import Finalize
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.wsgi import OpenTelemetryMiddleware
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, StatusCode

from config import tracing

Application = Callable[[dict[str, Any], Any], Iterable[bytes]]

SERVICE_NAME: Final = "log-query-endpoints"
_STOPPING_PRIORITY: Final = 10  # any number: without one a finalizer is not called at the end of a process
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
# Of an environ (WSGI, PEP 3333) the instrumentation sees these, a known method, and the route in place of the path.
_SEEN: Final = ("SERVER_PROTOCOL", "wsgi.url_scheme", tracing.HEADER, "HTTP_TRACESTATE")
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"})
_ANSWER: Final = "endpoints.answer"


def observe(application: Application, *, version: str) -> Application:
    """Return the application with spans, exported as the standard variables OTEL_… say, from this process on."""
    named = {"service.name": SERVICE_NAME, "service.version": version}
    # What the operator has named comes first: OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES.
    resource = Resource.create({**named, **OTELResourceDetector().detect().attributes})
    # Its sampler is OTEL_TRACES_SAMPLER's; by default the caller's flag decides, and without a caller all are.
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    # The web server's processes are forked, and end without atexit.
    Finalize(None, provider.shutdown, exitpriority=_STOPPING_PRIORITY)
    return make_spans(application, provider)


def make_spans(application: Application, provider: TracerProvider) -> Application:
    """Return the application with a span of the provider's for each request; each statement gets one from now on.

    An answer that is given later (config.exchanges) is over for its span when the thread gives it away.
    """
    os.environ.setdefault("OTEL_SEMCONV_STABILITY_OPT_IN", "http")  # the stable names of HTTP's attributes
    tracing.statement = partial(_span_of_statement, provider.get_tracer(SERVICE_NAME))
    instrumented = OpenTelemetryMiddleware(
        lambda seen, start_response: seen[_ANSWER](start_response), tracer_provider=provider
    )

    def observed(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if _PROBES.fullmatch(environ["PATH_INFO"]):
            return application(environ, start_response)
        answers: list[Iterable[bytes]] = []
        errors: list[BaseException] = []

        def answer(start_response: Any) -> Iterable[bytes]:
            span = trace.get_current_span()
            if (ids := span.get_span_context()).is_valid:
                # Everything behind reads this header: log lines and statements then have the ids of this span.
                environ[tracing.HEADER] = f"00-{ids.trace_id:032x}-{ids.span_id:016x}-{ids.trace_flags:02x}"
            try:
                answers.append(application(environ, start_response))
            except BaseException as error:  # noqa: BLE001  # raised below: the instrumentation would tell its text
                _note_failure(span, error)
                errors.append(error)
            return ()

        deque(instrumented({**_seen(environ), _ANSWER: answer}, start_response), maxlen=0)
        if errors:
            raise errors[0]
        return answers[0]

    return observed


def _seen(environ: dict[str, Any]) -> dict[str, Any]:
    method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
    route = next((route for pattern, route in _ROUTES if pattern.match(path)), "")
    return {
        **{name: environ[name] for name in _SEEN if name in environ},
        "REQUEST_METHOD": method if method in _METHODS else "_OTHER",
        "PATH_INFO": route,
        "RAW_URI": route or "/",
    }


@contextmanager
def _span_of_statement(tracer: trace.Tracer, connection: Any) -> Iterator[None]:
    if not trace.get_current_span().get_span_context().is_valid:
        yield  # a probe's statement, or one of a thread of the service's own, is of no request
        return
    server = connection.info
    attributes = {
        "db.system.name": "postgresql",
        "db.namespace": server.dbname,
        "db.operation.name": "SELECT",
        "server.address": server.host,
        "server.port": server.port,
    }
    with tracer.start_as_current_span(
        f"SELECT {server.dbname}",
        kind=SpanKind.CLIENT,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield
        except BaseException as error:
            _note_failure(span, error)
            raise


def _note_failure(span: trace.Span, error: BaseException) -> None:
    """Note the kind of an exception and PostgreSQL's SQLSTATE, never its text."""
    span.set_status(StatusCode.ERROR)
    span.set_attribute("error.type", type(error).__qualname__)
    if sqlstate := getattr(error, "sqlstate", None):
        span.set_attribute("db.response.status_code", str(sqlstate))
