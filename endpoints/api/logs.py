"""POST /api/logs: rows from a log shipper into a log source."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, cast

import orjson
import structlog
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.request import UnreadablePostError

from endpoints.access.token_limits import admit
from endpoints.api.arguments import RawArguments, read_query_string
from endpoints.api.authentication import authenticate
from endpoints.api.replies import JSON, POSITION_HEADER, as_endpoint_error, error_response
from endpoints.api.views import AnsweringView
from endpoints.calling.loading import Load, LoadedRows, LoadTarget, check_load, load_sent_rows
from endpoints.errors import (
    InvalidRequest,
    MethodNotAllowed,
    RequestTooLarge,
    UnsupportedEncoding,
    UnsupportedMediaType,
)

# --- Load bodies ------------------------------------------------------------------------------------------------------
# The body of a load: read to its end within the limit, and expanded later, at its turn, within the same limit.
# NDJSON has no registered name; with these types the first character tells which form the body has.
MEDIA_TYPES: Final = ("application/json", "application/x-ndjson", "application/ndjson", "application/jsonl")
ENCODINGS: Final = ("gzip",)
_GZIP_NAMES: Final = frozenset(("gzip", "x-gzip"))  # RFC 9110 section 8.4.1.3
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS  # in zlib this means: a gzip header, any window
_READ_BYTES: Final = 1024 * 1024
# An empty member takes only twenty bytes, and setting up its expansion takes as long as a kilobyte of rows.
MAX_GZIP_MEMBERS: Final = 1_000
# After a member zlib copies its unread input: passing a small part of the body at a time keeps that short.
_EXPANDED_AT_ONCE_BYTES: Final = 16 * 1024
_MAX_LENGTH_DIGITS: Final = 18  # digits of an announced length; Python refuses to read a number of thousands of digits


@dataclass(frozen=True, slots=True)
class LoadBody:
    """A body as it was sent."""

    sent: bytes
    is_compressed: bool
    max_bytes: int

    def rows(self) -> bytes:
        """Return the rows as they were before compression: up to `max_bytes`, so call it only to store them.

        Raises RequestTooLarge, and InvalidRequest for damaged or cut gzip data.
        """
        return _expanded(self.sent, self.max_bytes) if self.is_compressed else self.sent


def read_load_body(request: HttpRequest, *, max_bytes: int) -> LoadBody:
    """Return the body of a load.

    Raises RequestTooLarge, UnsupportedMediaType, UnsupportedEncoding, and InvalidRequest for one that is cut short.
    """
    if request.content_type and request.content_type.lower() not in MEDIA_TYPES:
        raise UnsupportedMediaType(MEDIA_TYPES[:2])
    encoding = request.META.get("HTTP_CONTENT_ENCODING", "").strip().lower()
    if encoding not in _GZIP_NAMES and encoding not in ("", "identity"):
        raise UnsupportedEncoding(ENCODINGS)
    return LoadBody(_read(request, max_bytes), encoding in _GZIP_NAMES, max_bytes)


def _read(request: HttpRequest, max_bytes: int) -> bytes:
    announced = _announced_bytes(request.META)
    if announced is not None and announced > max_bytes:
        raise RequestTooLarge(f"A load may have at most {max_bytes} bytes.")
    # Django reads nothing of a body in chunks; the web server knows its end.
    stream = cast("BinaryIO", request if announced is not None else request.META["wsgi.input"])
    parts: list[bytes] = []
    size = 0
    try:
        while size <= max_bytes and (part := stream.read(min(_READ_BYTES, max_bytes + 1 - size))):
            parts.append(part)
            size += len(part)
    except (UnreadablePostError, OSError) as error:
        raise InvalidRequest("The body ended before its announced length.") from error
    if size > max_bytes:
        raise RequestTooLarge(f"A load may have at most {max_bytes} bytes.")
    if announced is not None and size < announced:
        raise InvalidRequest("The body ended before its announced length.")
    return b"".join(parts)


def _announced_bytes(environ: dict[str, Any]) -> int | None:
    """Return the announced length; None if the body comes in chunks, whose end the server reports."""
    sent = environ.get("CONTENT_LENGTH", "")
    if not sent:
        return None if environ.get("wsgi.input_terminated") else 0
    if not sent.isdecimal():
        return 0
    if len(sent) > _MAX_LENGTH_DIGITS:
        raise RequestTooLarge
    return int(sent)


def _expanded(body: bytes, max_bytes: int) -> bytes:
    """Return the content of gzip members (RFC 1952 section 2.2: one or more), with at most the limit in memory."""
    parts: list[bytes] = []
    room = max_bytes
    members = 0
    expander: Any = None  # of the member that has begun but not ended
    for start in range(0, len(body), _EXPANDED_AT_ONCE_BYTES):
        given = body[start : start + _EXPANDED_AT_ONCE_BYTES]
        while given:
            if expander is None:
                members += 1
                if members > MAX_GZIP_MEMBERS:
                    raise RequestTooLarge(f"A load may have at most {MAX_GZIP_MEMBERS} gzip members.")
                expander = zlib.decompressobj(_GZIP_WINDOW)
            try:
                part = expander.decompress(given, room + 1)
            except zlib.error as error:
                raise InvalidRequest("The gzip data is damaged.") from error
            room -= len(part)
            if room < 0:
                raise RequestTooLarge(f"A load may have at most {max_bytes} bytes, also after it is expanded.")
            parts.append(part)
            given = expander.unused_data
            if expander.eof:
                expander = None
    if expander is not None:
        raise InvalidRequest("The gzip data is cut short.")
    return b"".join(parts)


# --- Logs -------------------------------------------------------------------------------------------------------------
METHODS: Final = ("POST", "OPTIONS")
_MAX_SENDING_CHARACTERS: Final = 255


class LoadView(AnsweringView):
    """Store the rows of the body, and answer once they are on disk."""

    def answer(self, request: HttpRequest, **of_route: str) -> HttpResponse:
        if request.method == "OPTIONS":
            return HttpResponse(status=204, headers={"Allow": ", ".join(METHODS)})
        try:
            loaded = _load(request)
        except Exception as error:  # noqa: BLE001  # whatever it was, the caller gets the one error body
            return error_response(request, as_endpoint_error(error))
        structlog.contextvars.bind_contextvars(log_source=loaded.source, rows_loaded=loaded.loaded)
        return HttpResponse(
            orjson.dumps({"result": [_result(loaded)]}),
            content_type=JSON,
            headers={"Cache-Control": "no-store", POSITION_HEADER: loaded.position},
        )


def _load(request: HttpRequest) -> LoadedRows:
    caller = authenticate(request.META)
    admit(caller)
    if request.method != "POST":
        raise MethodNotAllowed(str(request.method), METHODS)
    arguments = read_query_string(request.META.get("QUERY_STRING", "").encode("latin-1"))
    skip_bad_rows = _skips_bad_rows(arguments)
    target = check_load(_target(arguments), caller=caller)
    return load_sent_rows(
        Load(
            target=target,
            receive=lambda: read_load_body(request, max_bytes=settings.ENDPOINTS_MAX_LOAD_BYTES).rows,
            default_project=caller.default_project,
            sending=_sending(request),
            skip_bad_rows=skip_bad_rows,
        )
    )


def _target(arguments: RawArguments) -> LoadTarget:
    return LoadTarget(source=_text(arguments, "source"), producer_name=_text(arguments, "source_name"))


def _skips_bad_rows(arguments: RawArguments) -> bool:
    wanted = _text(arguments, "bad_rows") or "refuse"
    if wanted not in ("refuse", "skip"):
        raise InvalidRequest(details=[{"name": "bad_rows", "reason": "must be `refuse` or `skip`"}])
    return wanted == "skip"


def _text(arguments: RawArguments, name: str) -> str:
    if name in arguments.repeated:
        raise InvalidRequest(details=[{"name": name, "reason": "is sent more than once"}])
    value = arguments.values.get(name, "")
    return value if isinstance(value, str) else ""


def _sending(request: HttpRequest) -> str:
    sent = str(request.META.get("HTTP_IDEMPOTENCY_KEY", "")).strip()
    if len(sent) > _MAX_SENDING_CHARACTERS:
        raise InvalidRequest(f"Idempotency-Key may have at most {_MAX_SENDING_CHARACTERS} characters.")
    return sent


def _result(loaded: LoadedRows) -> dict[str, object]:
    result: dict[str, object] = {
        "source": loaded.source,
        "loaded": loaded.loaded,
        "already_there": loaded.already_there,
    }
    if loaded.bad_rows:
        result["bad_rows"] = loaded.bad_rows
        result["details"] = [{"index": bad.index, "reason": bad.reason} for bad in loaded.listed_bad_rows]
    return result
