"""The body of a load: read to its end within the limit, and expanded later, at its turn, within the same limit."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, cast

from django.http import HttpRequest
from django.http.request import UnreadablePostError

from endpoints.errors import InvalidRequest, RequestTooLarge, UnsupportedEncoding

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

    Raises RequestTooLarge, UnsupportedEncoding, and InvalidRequest for one that is cut short.
    """
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
