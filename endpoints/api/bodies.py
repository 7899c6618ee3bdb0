"""The one reader of bodies, for every route: told or in chunks, read within a limit and expanded within the same.

The content codings are those of RFC 9110 section 8.4.1 and RFC 9659. What cannot be read is refused: nobody answers as
if nothing had been sent. Forms of the admin are Django's to read.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import zstandard
from django.conf import settings

from endpoints.api.slow_bodies import BodyCutOff
from endpoints.errors import InvalidRequest, RequestTooLarge, UnsupportedEncoding

ENCODINGS: Final = ("gzip", "deflate", "zstd")
# An empty member takes only twenty bytes, and setting up its expansion takes as long as a kilobyte of rows.
MAX_MEMBERS: Final = 1_000
_READ_BYTES: Final = 1024 * 1024
# So little is expanded at once that it becomes 2 MiB at most: zlib makes up to 1,032 bytes of one, zstd 32,768. After a
# member zlib also copies its unread input.
_EXPANDED_AT_ONCE_BYTES: Final = {"gzip": 1024, "deflate": 1024, "zstd": 64}
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS  # in zlib this means: a gzip header, any window
_ZSTD_WINDOW_BYTES: Final = 8 * 1024 * 1024  # RFC 9659: the memory that a frame may ask for
_MAX_LENGTH_DIGITS: Final = 18  # digits of an announced length; Python refuses to read a number of thousands of digits


@dataclass(frozen=True, slots=True)
class Body:
    """A body as it was sent, in one of ENCODINGS or ""."""

    sent: bytes
    encoding: str
    max_bytes: int

    def content(self) -> bytes:
        """Return the body as it was before compression: up to `max_bytes`, so call it only to use it at once.

        Raises RequestTooLarge, and InvalidRequest for damaged or cut data.
        """
        return _expanded(self) if self.encoding else self.sent


def read_content(environ: Mapping[str, Any]) -> bytes:
    """Return the body of a request that is no load, expanded. Raises as `receive_body` and `Body.content` do."""
    return receive_body(environ, max_bytes=settings.ENDPOINTS_MAX_BODY_BYTES).content()


def receive_body(environ: Mapping[str, Any], *, max_bytes: int) -> Body:
    """Return the body of a request (WSGI's environ, PEP 3333); empty if there is none, whatever its encoding.

    Raises RequestTooLarge, UnsupportedEncoding, and InvalidRequest for one that is cut short.
    """
    announced = announced_bytes(environ)
    encoding = "" if announced == 0 else _encoding(environ)
    if announced is not None and announced > max_bytes:
        raise RequestTooLarge(f"A body may have at most {max_bytes} bytes.")
    most = max_bytes + 1 if announced is None else announced
    parts: list[bytes] = []
    size = 0
    try:
        while size < most and (part := environ["wsgi.input"].read(min(_READ_BYTES, most - size))):
            parts.append(part)
            size += len(part)
    except OSError as error:
        if isinstance(error, BodyCutOff) and error.failure is not None:
            raise error.failure from None  # so that it is recorded as what it is answered
        raise InvalidRequest("The body ended before its announced length.") from error
    if size > max_bytes:
        raise RequestTooLarge(f"A body may have at most {max_bytes} bytes.")
    if announced is not None and size < announced:
        raise InvalidRequest("The body ended before its announced length.")
    # What is left of a POST whose chunks the web server could not read, or whose producer failed, would be no question.
    if announced is None and not size and environ["REQUEST_METHOD"] == "POST":
        raise InvalidRequest("The body came in chunks and has nothing in it.")
    return Body(b"".join(parts), encoding, max_bytes)


def announced_bytes(environ: Mapping[str, Any]) -> int | None:
    """Return the length of the body that was told; None for chunks, whose end the web server reports.

    Raises InvalidRequest for what is neither, and RequestTooLarge.
    """
    if "HTTP_TRANSFER_ENCODING" in environ:  # it decides also where a length is told: RFC 9112 section 6.3
        if environ["HTTP_TRANSFER_ENCODING"].lower() != "chunked" or not environ.get("wsgi.input_terminated"):
            raise InvalidRequest("The Transfer-Encoding of the body cannot be read; send its Content-Length.")
        return None
    sent = environ.get("CONTENT_LENGTH") or "0"
    if not sent.isdecimal():
        raise InvalidRequest("Content-Length must be a number.")
    if len(sent) > _MAX_LENGTH_DIGITS:
        raise RequestTooLarge
    return int(sent)


def _encoding(environ: Mapping[str, Any]) -> str:
    listed = [each.strip() for each in environ.get("HTTP_CONTENT_ENCODING", "").lower().split(",")]
    # x-gzip is the same as gzip: RFC 9110 section 8.4.1.3.
    sent = ["gzip" if each == "x-gzip" else each for each in listed if each not in ("", "identity")]
    if len(sent) > 1 or not set(sent) <= set(ENCODINGS):
        raise UnsupportedEncoding(ENCODINGS)
    return sent[0] if sent else ""


def _expanded(body: Body) -> bytes:
    """Return the content of gzip's members, zstd's frames (one or more) or deflate's stream, the limit in memory."""
    parts: list[bytes] = []
    size = members = 0
    expander: Any = None  # of the member that has begun but not ended
    at_once = _EXPANDED_AT_ONCE_BYTES[body.encoding]
    for start in range(0, len(body.sent), at_once):
        given = body.sent[start : start + at_once]
        while given:
            if expander is None:
                members += 1
                if members > MAX_MEMBERS:
                    raise RequestTooLarge(f"A body may have at most {MAX_MEMBERS} members of {body.encoding}.")
                if members > 1 and body.encoding == "deflate":
                    raise InvalidRequest("There is more behind the end of the deflate data.")
                expander = _expander(body.encoding, given)
            try:
                part = expander.decompress(given)
            except (zlib.error, zstandard.ZstdError) as error:
                raise InvalidRequest(f"The {body.encoding} data is damaged.") from error
            size += len(part)
            if size > body.max_bytes:
                raise RequestTooLarge(f"A body may have at most {body.max_bytes} bytes, also after it is expanded.")
            parts.append(part)
            given = expander.unused_data
            if expander.eof:
                expander = None
    if expander is not None:
        raise InvalidRequest(f"The {body.encoding} data is cut short.")
    return b"".join(parts)


def _expander(encoding: str, begin: bytes) -> Any:
    """Return what expands one member, as zlib's decompressobj does."""
    if encoding == "zstd":
        return zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES).decompressobj()
    if encoding == "gzip":
        return zlib.decompressobj(_GZIP_WINDOW)
    # Some clients leave the zlib header out (RFC 9110 section 8.4.1.2), whose first two bytes are a multiple of 31.
    has_header = begin[0] & 0x0F == zlib.DEFLATED and int.from_bytes(begin[:2]) % 31 == 0
    return zlib.decompressobj(zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)
