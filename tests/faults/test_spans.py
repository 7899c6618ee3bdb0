"""A web server with spans and a collector: they arrive, also at the end of a process, and a collector delays nobody."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.faults.conftest import CACHED, PLAIN
from tests.live.calls import Answer, all_at_once, until
from tests.live.installation import Installation

TRACE: Final = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT: Final = f"00-{TRACE}-00f067aa0ba902b7-01"
ARRIVE_SECONDS: Final = 120
STOP_SECONDS: Final = 120
CALLS: Final = 200
LONGER_THAN_CALLERS_SECONDS: Final = 600  # a call that waited for the collector would fail by its caller's patience


@dataclass(slots=True)
class Collector:
    """What has arrived, and the address."""

    address: str
    requests: list[ExportTraceServiceRequest] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    def spans(self) -> list[Any]:
        return [
            span
            for request in list(self.requests)
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def named(self, beginning: str) -> list[Any]:
        return [span for span in self.spans() if span.name.startswith(beginning)]


@contextmanager
def collecting(*, hangs: bool = False) -> Iterator[Collector]:
    """Run a collector that takes OTLP over HTTP; one that hangs accepts requests and answers none before its end."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.paths.append(self.path)
            if hangs:
                over.wait()
                return
            collector.requests.append(ExportTraceServiceRequest.FromString(body))
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    over = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    collector = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def variables(collector: Collector, *, delay_ms: int) -> dict[str, str]:
    return {
        "ENDPOINTS_SPANS": "true",
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.address,
        "OTEL_BSP_SCHEDULE_DELAY": str(delay_ms),
        "ENDPOINTS_POOL_WAIT_SECONDS": "30",  # no call is refused because the machine is busy
    }


def attributes_of(span: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


def test_spans_of_a_call_arrive_with_its_trace_which_stands_in_the_log(installation: Installation) -> None:
    with (
        collecting() as collector,
        installation.another_web(**variables(collector, delay_ms=50)) as (web, port),
        installation.caller(port=port) as caller,
    ):
        caller.purge(CACHED)
        assert caller.query(CACHED, traceparent=TRACEPARENT).status == 200
        assert caller.query(PLAIN, {"no_such": "argument-of-a-caller"}).status == 200
        until(lambda: len(collector.named("SELECT")) >= 2, seconds=ARRIVE_SECONDS)
        until(lambda: len(collector.named("GET")) >= 2, seconds=ARRIVE_SECONDS)
        (request,) = (span for span in collector.named("GET") if span.trace_id.hex() == TRACE)
        (statement,) = (span for span in collector.named("SELECT") if span.trace_id.hex() == TRACE)
        lines = [json.loads(line) for line in web.log.read_text().splitlines() if f'"{TRACE}"' in line]
    assert request.parent_span_id.hex() == TRACEPARENT.split("-")[2]
    assert statement.parent_span_id == request.span_id
    assert attributes_of(request)["http.response.status_code"] == 200
    assert attributes_of(statement)["db.system.name"] == "postgresql"
    assert [line["span_id"] for line in lines] == [request.span_id.hex()]
    assert set(collector.paths) == {"/v1/traces"}
    (resource,) = {request.resource_spans[0].resource.SerializeToString(): request for request in collector.requests}
    assert b"log-query-endpoints" in resource
    assert not [request for request in collector.requests if b"argument-of-a-caller" in request.SerializeToString()]


def test_a_process_that_ends_sends_what_it_has(installation: Installation) -> None:
    with (
        collecting() as collector,
        installation.another_web(**variables(collector, delay_ms=3_600_000)) as (web, port),
    ):
        with installation.caller(port=port) as caller:
            assert caller.query(PLAIN).status == 200
        assert collector.requests == []
        os.kill(web.id, signal.SIGTERM)
        until(lambda: not web.is_running, seconds=STOP_SECONDS)
        until(lambda: len(collector.named("GET")) == 1, seconds=ARRIVE_SECONDS)


def test_a_collector_that_hangs_delays_no_call(installation: Installation) -> None:
    with (
        collecting(hangs=True) as collector,
        installation.another_web(
            **variables(collector, delay_ms=1), OTEL_EXPORTER_OTLP_TIMEOUT=str(LONGER_THAN_CALLERS_SECONDS)
        ) as (_, port),
    ):

        def call() -> list[Answer]:
            with installation.caller(port=port) as caller:
                return [caller.query(PLAIN) for _ in range(CALLS // 4)]

        before = call()
        until(lambda: bool(collector.paths), seconds=ARRIVE_SECONDS)  # from now on one batch hangs
        answers = [answer for answers in all_at_once([call] * 4) for answer in answers]
    assert {answer.status for answer in (*before, *answers)} == {200}
