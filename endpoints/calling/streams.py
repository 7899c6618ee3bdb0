"""Results that are sent while their rows arrive, so that they may be of any size: the endpoint's setting `stream_rows`.

A stream begins like every call: what fails before the first row is an ordinary error with its status. Then it has a
thread of its own, and the thread of the call is free again. It always ends with a line that says how:

    {"end":{"rows":3,"truncated":false,"request_id":"…"}}      NDJSON; in CSV after "# "
    {"error":{"code":"query_timeout",…,"request_id":"…"}}      it failed, and more rows would have come

A stream without this line was cut. The request id is also in the answer's headers: rows can imitate the rest. After a
failure the connection is shut down too, so that clients notice it by HTTP itself (RFC 9112 section 8).
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from time import perf_counter, sleep, thread_time, time
from typing import Final

import orjson
import structlog
from django.conf import settings

from config import logs
from config.connections import torn_end
from config.exchanges import Exchange, Headers, LaterAnswer
from endpoints.access.secrets import Caller
from endpoints.access.token_limits import stream_turn, turn
from endpoints.auditing import call_queue
from endpoints.cache import QueryRequest, usage
from endpoints.cache.usage import RecentCall
from endpoints.calling.prepared_queries import PreparedQuery, max_result_bytes, over_budget, reason_of
from endpoints.calling.producing import refusal_of, run_request
from endpoints.definition import Version
from endpoints.errors import EndpointError, InternalError, Overloaded
from endpoints.log_database.cancelling import held_until_stopped
from endpoints.log_database.execution import StatementFailed
from endpoints.log_database.streaming import ArrivingRows, Chunk, open_rows, stream_place
from endpoints.results.encoding import CHUNK_ROWS, encode_chunks
from endpoints.results.outcomes import OverBudget, ResultFormat, Statement, TimestampForm
from endpoints.results.positions import ON_PRIMARY
from endpoints.sql.composition import limit_bytes_of_chunks

# How long a stream rests after each chunk, in times of the work for it: others get the interpreter and PostgreSQL.
RESTS: Final = 8.0

logger = structlog.get_logger(__name__)


class Stream:
    """A result on its way; it holds a connection, a place and turns until `pieces` is over or `close` is called."""

    def __init__(
        self,
        endpoint: Version,
        request: QueryRequest,
        caller: Caller | None,
        query: PreparedQuery,
        rows: ArrivingRows,
        held: ExitStack,
    ) -> None:
        self._endpoint = endpoint
        self._request = request
        self._caller = caller
        self._query = query
        self._rows = rows
        self._held = held
        self._started = perf_counter()
        self._sent = 0
        self._truncated = False
        # Also for a stream that nobody asks for its pieces, because a later step of its call failed.
        self.close = weakref.finalize(self, held.close)
        self.close.atexit = False  # its thread may still use what is held

    @property
    def format(self) -> ResultFormat:
        return self._request.format

    @property
    def database_seconds(self) -> float:
        """The time until the first rows."""
        return self._rows.database_seconds

    def pieces(self, request_id: str, torn: Callable[[bytes], Iterator[bytes]] | None = None) -> Iterator[bytes]:
        """Yield the body, its last line included; after a failure what `torn` makes of the last line."""
        failure: EndpointError | None = None
        is_left = True
        try:
            try:
                with self._held:
                    yield from self._encoded()
            except Exception as error:  # noqa: BLE001  # whatever it was, the last line says it
                failure = _as_endpoint_error(error)
            line = self._last_line(failure, request_id)
            if failure is not None and torn is not None:
                yield from torn(line)
            else:
                yield line
            is_left = False
        finally:
            self._note(failure, request_id, is_left=is_left)

    def _encoded(self) -> Iterator[bytes]:
        """Yield the rows. Raises an EndpointError, inside what is held: turns see whether a query overran."""
        columns = self._rows.columns[:-1] if self._query.language else self._rows.columns
        pieces = encode_chunks(
            columns,
            self._chunks(),
            self.format,
            redact=self._request.redact,
            timestamps_as=TimestampForm(self._endpoint.timestamps_as),
            types=self._query.types_of_result(self._rows.types),
            max_bytes=max_result_bytes(self._query.language),
        )
        began = thread_time()
        try:
            for piece in pieces:
                worked = thread_time() - began
                yield piece
                sleep(worked * RESTS)
                began = thread_time()
        except StatementFailed as error:
            raise refusal_of(self._query, error) from error
        except OverBudget as error:
            raise over_budget(self._query.language) from error

    def _chunks(self) -> Iterator[Chunk]:
        for chunk in self._rows:
            room = self._query.max_rows - self._sent
            self._truncated = len(chunk) > room
            part = chunk[:room] if self._truncated else chunk
            if part:
                yield part
            self._sent += len(part)

    def _last_line(self, failure: EndpointError | None, request_id: str) -> bytes:
        end = {"rows": self._sent, "truncated": self._truncated, "request_id": request_id}
        line = orjson.dumps({"end": end} if failure is None else failure.body(request_id))
        return b"# " + line + b"\r\n" if self.format is ResultFormat.CSV else line + b"\n"

    def _note(self, failure: EndpointError | None, request_id: str, *, is_left: bool) -> None:
        """Tell the operator how it ended, as for every call."""
        seconds = perf_counter() - self._started + self._rows.database_seconds
        code = failure.code if failure is not None else "client_left" if is_left else ""
        log = logger.info if failure is None else logger.warning
        log(
            "stream_finished",
            rows=self._sent,
            truncated=self._truncated,
            error=code,
            duration_ms=round(seconds * 1000, 3),
        )
        call = RecentCall(
            at=time(),
            access_token=self._caller.name if self._caller is not None else "",
            access_token_prefix=self._caller.prefix if self._caller is not None else "",
            status=200 if failure is None else failure.status,
            error_code=failure.code if failure is not None else "",
            rows=self._sent,
            milliseconds=seconds * 1000,
            cache="bypass",
            version=self._endpoint.version,
            reason="" if failure is None else reason_of(failure),
        )
        usage.note_outcome(self._endpoint.pk.hex, call)
        # Without those of a bond: only people who may change access tokens see what one is bound to.
        bound = self._caller.bound_arguments if self._caller is not None else {}
        arguments = self._request.arguments.items()
        sent = {name: value for name, value in arguments if value is not None and name not in bound}
        call_queue.note(
            (call, self._endpoint, request_id, "stream", call_queue.kept_arguments(sent), self._request.redact)
        )


def begin_stream(
    endpoint: Version, request: QueryRequest, caller: Caller | None, *, on_primary: bool = False
) -> Stream:
    """Run the request and return its stream once the first rows are there. Raises an EndpointError.

    It counts as a call of its access token, a sandbox query too, until PostgreSQL has stopped it.
    """
    # In a context of its own, because it ends in another thread.
    return copy_context().run(_begin_stream, endpoint, request, caller, on_primary)


def _begin_stream(endpoint: Version, request: QueryRequest, caller: Caller | None, on_primary: bool) -> Stream:
    with ExitStack() as held:
        until_stopped = held.enter_context(held_until_stopped())
        until_stopped.enter_context(stream_turn(caller))
        held.enter_context(
            turn(
                caller,
                is_sandbox_query=bool(request.sandbox_language),
                statement_seconds=settings.ENDPOINTS_STREAM_SECONDS,
            )
        )
        until_stopped.enter_context(stream_place())
        streamed = replace(endpoint, max_rows=endpoint.stream_rows)
        query, rows = run_request(streamed, request, _open, ON_PRIMARY if on_primary else None)
        held.callback(rows.close)
        return Stream(endpoint, request, caller, query, rows, held.pop_all())


def _open(query: PreparedQuery, awaited: int | None) -> ArrivingRows:
    sql, endpoint_seconds = query.statement.sql, query.session.statement_timeout_seconds
    return open_rows(
        Statement(limit_bytes_of_chunks(sql, rows=CHUNK_ROWS) if query.language else sql, query.statement.arguments),
        replace(query.session, statement_timeout_seconds=settings.ENDPOINTS_STREAM_SECONDS),
        wait_seconds=endpoint_seconds,
        awaited=awaited,
    )


def _as_endpoint_error(error: Exception) -> EndpointError:
    if isinstance(error, EndpointError):
        return error
    logger.error("internal_error", exc_info=error)
    return InternalError()


class StreamedAnswer(LaterAnswer):
    """The body of a call's answer that is a stream."""

    def __init__(self, stream: Stream, request_id: str) -> None:
        self._stream = stream
        self._request_id = request_id
        self._context = logs.bound()  # of the call, for the log lines of its stream

    def deliver(self, exchange: Exchange, status: int, headers: Headers) -> None:
        """Send it from a thread of its own; if there is none, the answer is the error `overloaded`."""
        thread = threading.Thread(target=self._send, args=(exchange, status, headers), name="stream", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            self._stream.close()
            error = Overloaded()
            kept = [(name, value) for name, value in headers if name.lower() not in ("content-type", "x-cache")]
            body = orjson.dumps(error.body(self._request_id))
            exchange.answer(error.status, [*kept, *error.headers.items(), ("Content-Type", "application/json")], body)

    def __iter__(self) -> Iterator[bytes]:
        return self._stream.pieces(self._request_id)

    def close(self) -> None:
        """Give it up, for a web server that ends a response without having read it (PEP 3333)."""
        self._stream.close()

    def _send(self, exchange: Exchange, status: int, headers: Headers) -> None:
        logs.begin(**self._context)
        torn = partial(torn_end, exchange.port)
        try:
            exchange.stream(status, headers, self._stream.pieces(self._request_id, torn))
        finally:
            self._stream.close()
