"""PostgreSQL values to JSON, NDJSON and CSV bytes; `endpoints.results.arrow` makes Parquet and Arrow of them.

A value arrives as PostgreSQL's text and becomes one of: None, bool, int, str, list (arrays), or bytes. `bytes` is
always raw JSON: jsonb and numbers go out digit for digit as PostgreSQL wrote them and are never parsed on the way.

============================  ====================================================================
PostgreSQL type               JSON form
============================  ====================================================================
timestamptz                   "2025-06-02T08:15:02.000000Z", always UTC with microseconds
timestamp                     "2025-06-02T08:15:02.000000" (no zone is known)
date, time, timetz            PostgreSQL's ISO text
smallint, integer, bigint     number
numeric, real, double         number with all its digits; "NaN", "Infinity", "-Infinity" as strings
json, jsonb                   JSON as it is
uuid, inet, cidr, macaddr     string
bytea                         base64 string (RFC 4648)
interval                      ISO 8601 duration string, such as "P1DT2H"
arrays                        JSON array, nested for more dimensions
ranges, records, other types  PostgreSQL's text
infinite dates, years BC      PostgreSQL's text, such as "infinity"
============================  ====================================================================
"""

from __future__ import annotations

import csv
import io
import re
import sys
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from itertools import islice, repeat
from typing import Any, Final

import orjson
from psycopg.abc import AdaptContext
from psycopg.adapt import Buffer, Loader
from psycopg.types.string import TextLoader

from endpoints.errors import NotAcceptable
from endpoints.results.outcomes import FIELD, ColumnType, OverBudget, ResultFormat, Rows, TimestampForm
from endpoints.results.redaction import json_may_contain_address, redact_json, redact_text

CHUNK_ROWS: Final = 128  # one chunk holds the hundred rows of most calls
UNBOUNDED: Final = sys.maxsize
Chunk = Sequence[Sequence[Any]]

BINARY_FORMATS: Final = frozenset((ResultFormat.PARQUET, ResultFormat.ARROW))  # by a library of the extra [arrow]
_TIMESTAMPTZ: Final = 1184  # its oid in every PostgreSQL
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NOT_FINITE = frozenset((b"NaN", b"Infinity", b"-Infinity"))
_INTERVAL = re.compile(
    r"(?:(?P<years>[+-]?\d+) years? ?)?(?:(?P<months>[+-]?\d+) mons? ?)?(?:(?P<days>[+-]?\d+) days? ?)?"
    r"(?:(?P<sign>[+-])?(?P<hours>\d+):(?P<minutes>\d\d):(?P<seconds>\d\d(?:\.\d+)?))?",
    re.ASCII,
)


class _JSONBLoader(Loader):
    def load(self, data: Buffer) -> bytes:
        return bytes(data)


class _JSONLoader(Loader):
    """The json type keeps its author's white space; a line break there would break NDJSON."""

    def load(self, data: Buffer) -> bytes:
        text = bytes(data)
        # JSON allows raw line breaks between tokens only, never inside a string.
        return text.replace(b"\r", b" ").replace(b"\n", b" ")


class _NumberLoader(Loader):
    def load(self, data: Buffer) -> bytes | str:
        text = bytes(data)
        return text.decode() if text in _NOT_FINITE else text


class _ByteaLoader(Loader):
    """bytea_output = hex: `\\x` and two hexadecimal digits a byte."""

    def load(self, data: Buffer) -> str:
        return b64encode(bytes.fromhex(str(data, "ascii")[2:])).decode()


class _TimestampLoader(Loader):
    """DateStyle ISO: `2025-06-02 08:15:02.12`; years beyond 9999, BC and infinity stay as PostgreSQL writes them."""

    def load(self, data: Buffer) -> str:
        text = str(data, "ascii")
        if len(text) < 19 or text[4] != "-" or text[-1] == "C":
            return text
        return f"{text[:10]}T{text[11:19]}.{text[20:]:0<6}"


class _TimestamptzLoader(_TimestampLoader):
    """The session's TimeZone is UTC, so every finite value ends in `+00`."""

    def load(self, data: Buffer) -> str:
        text = str(data, "ascii")
        if len(text) == 29 and text[4] == "-" and text.endswith("+00"):  # the usual length: nothing to fill up
            return f"{text[:10]}T{text[11:26]}Z"
        if len(text) < 22 or text[4] != "-" or not text.endswith("+00"):
            return text
        return f"{text[:10]}T{text[11:19]}.{text[20:-3]:0<6}Z"


class _IntervalLoader(Loader):
    """IntervalStyle postgres: `1 year 2 mons -3 days +04:05:06.7` -> `P1Y2M-3DT4H5M6.7S`."""

    def load(self, data: Buffer) -> str:
        text = str(data, "ascii")
        match = _INTERVAL.fullmatch(text)
        return _iso_duration(match) if match else text


def _iso_duration(match: re.Match[str]) -> str:
    sign = "-" if match["sign"] == "-" else ""
    date_part = "".join(
        f"{int(match[name])}{unit}" for name, unit in (("years", "Y"), ("months", "M"), ("days", "D")) if match[name]
    )
    time_part = ""
    if match["hours"] is not None:
        seconds = match["seconds"].lstrip("0")
        for digits, unit in ((match["hours"].lstrip("0"), "H"), (match["minutes"].lstrip("0"), "M"), (seconds, "S")):
            if digits:
                time_part += f"{sign}{'0' if digits.startswith('.') else ''}{digits}{unit}"
    if not date_part and not time_part:
        return "PT0S"
    return f"P{date_part}" + (f"T{time_part}" if time_part else "")


_LOADERS: tuple[tuple[type[Loader], tuple[str, ...]], ...] = (
    (TextLoader, ("date", "time", "timetz", "uuid", "inet", "cidr")),
    (TextLoader, ("int4range", "int8range", "numrange", "daterange", "tsrange", "tstzrange")),
    (
        TextLoader,
        ("int4multirange", "int8multirange", "nummultirange", "datemultirange", "tsmultirange", "tstzmultirange"),
    ),
    (TextLoader, ("record",)),
    (_TimestampLoader, ("timestamp",)),
    (_TimestamptzLoader, ("timestamptz",)),
    (_IntervalLoader, ("interval",)),
    (_NumberLoader, ("numeric", "float4", "float8")),
    (_ByteaLoader, ("bytea",)),
    (_JSONBLoader, ("jsonb",)),
    (_JSONLoader, ("json",)),
)


def register_loaders(context: AdaptContext) -> None:
    """Make a connection load values as in the table above; its session must have TimeZone UTC and DateStyle ISO."""
    adapters = context.connection.adapters if context.connection else context.adapters
    for loader, type_names in _LOADERS:
        for type_name in type_names:
            adapters.register_loader(type_name, loader)


def _unix_microseconds(value: str | None) -> bytes | str | None:
    # "2025-06-02T08:15:02.000000Z"  ->  1748852102000000
    if value is None or len(value) != 27:
        return value
    return b"%d" % ((datetime.fromisoformat(value) - _EPOCH) // _MICROSECOND)


def offered_formats() -> tuple[ResultFormat, ...]:
    """Return the formats that this installation can write: without the extra [arrow], only those that are text."""
    has_library = find_spec("pyarrow") is not None
    return tuple(result_format for result_format in ResultFormat if has_library or result_format not in BINARY_FORMATS)


def encode_rows(
    rows: Rows,
    result_format: ResultFormat,
    *,
    redact: bool,
    timestamps_as: TimestampForm = TimestampForm.ISO,
    max_bytes: int = UNBOUNDED,
) -> bytes:
    """Return the body of a result: columns in query order; if two share a name, the last one's value is returned.

    A page in JSON has the token of the next one beside its rows, null if it is the last.
    Columns of type timestamptz are written in the requested form, only at the outermost level; in the binary formats
    they have a type of their own. There and in CSV a FIELD is its value. Rows are loaded and encoded a chunk at a time.
    Raises OverBudget as soon as the body has more than `max_bytes`, and NotAcceptable for a format that is not offered.
    """
    if result_format in BINARY_FORMATS:
        return _binary(rows, result_format, redact=redact, max_bytes=max_bytes)
    chunks = _changed(_chunks(rows), rows.types, result_format, redact=redact, timestamps_as=timestamps_as)
    parts: list[Buffer] = []
    room = max_bytes
    for part in _ENCODERS[result_format](rows.columns, chunks):
        room -= len(part)
        if room < 0:
            raise OverBudget
        parts.append(part)
    if rows.next_page is not None and result_format is ResultFormat.JSON:
        parts[-1] = b'%b,"next":%b}' % (bytes(parts[-1])[:-1], orjson.dumps(rows.next_page or None))
    return b"".join(parts)


def _binary(rows: Rows, result_format: ResultFormat, *, redact: bool, max_bytes: int) -> bytes:
    try:
        # Imported at first use: it takes a third of a second and 50 MB.
        from endpoints.results.arrow import encode_columns
    except ModuleNotFoundError as error:
        offered = [each.value for each in offered_formats()]
        raise NotAcceptable(offered, missing=[result_format.value]) from error
    return encode_columns(
        rows,
        lambda: _changed(_chunks(rows), rows.types, result_format, redact=redact, timestamps_as=TimestampForm.ISO),
        as_parquet=result_format is ResultFormat.PARQUET,
        redact=redact,
        max_bytes=max_bytes,
    )


def encode_chunks(
    columns: Sequence[str],
    chunks: Iterable[Chunk],
    result_format: ResultFormat,
    *,
    redact: bool,
    timestamps_as: TimestampForm = TimestampForm.ISO,
    types: Sequence[ColumnType] = (),
    max_bytes: int = UNBOUNDED,
) -> Iterator[bytes]:
    """Yield the body that `encode_rows` returns, piece by piece, each from one chunk as it comes.

    Not in JSON, whose last bytes depend on whether another chunk follows. Raises OverBudget for a piece of more than
    `max_bytes`.
    """
    changed = _changed(chunks, types, result_format, redact=redact, timestamps_as=timestamps_as)
    for piece in _ENCODERS_OF_CHUNKS[result_format](columns, changed):
        if len(piece) > max_bytes:
            raise OverBudget
        yield piece


def _chunks(rows: Rows) -> Iterator[Chunk]:
    values = iter(rows.rows)
    return iter(lambda: list(islice(values, CHUNK_ROWS)), [])


def _changed(
    chunks: Iterable[Chunk],
    types: Sequence[ColumnType],
    result_format: ResultFormat,
    *,
    redact: bool,
    timestamps_as: TimestampForm,
) -> Iterator[Chunk]:
    changes: list[tuple[int, Callable[[Any], Any]]] = []
    if timestamps_as is TimestampForm.UNIX_MICROSECONDS:
        changes += [(index, _unix_microseconds) for index, (oid, _) in enumerate(types) if oid == _TIMESTAMPTZ]
    if result_format is ResultFormat.CSV:
        changes += [(index, field_text) for index, type_ in enumerate(types) if type_ == FIELD]
    for chunk in chunks:
        redacted = _redacted(chunk) if redact else chunk
        yield [_with(changes, row) for row in redacted] if changes else redacted


def _with(changes: Iterable[tuple[int, Callable[[Any], Any]]], row: Sequence[Any]) -> list[Any]:
    changed = list(row)
    for index, change in changes:
        changed[index] = change(changed[index])
    return changed


def _json(columns: Sequence[str], chunks: Iterator[Chunk]) -> Iterator[Buffer]:
    chunk: Chunk | None = next(chunks, [])
    following = next(chunks, None)
    if chunk is not None and following is None:
        yield orjson.dumps({"result": list(_documents(columns, chunk))}, default=_raw_json)
        return
    before = b'{"result":['
    while chunk is not None:
        yield before
        yield memoryview(orjson.dumps(list(_documents(columns, chunk)), default=_raw_json))[1:-1]
        before = b","
        chunk, following = following, next(chunks, None)
    yield b"]}"


def _ndjson(columns: Sequence[str], chunks: Iterator[Chunk]) -> Iterator[Buffer]:
    for chunk in chunks:
        for document in _documents(columns, chunk):
            yield orjson.dumps(document, default=_raw_json, option=orjson.OPT_APPEND_NEWLINE)


def _ndjson_of_chunks(columns: Sequence[str], chunks: Iterator[Chunk]) -> Iterator[bytes]:
    for chunk in chunks:
        yield b"".join(_ndjson(columns, iter((chunk,))))


def _documents(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[dict[str, Any]]:
    return map(dict, map(zip, repeat(columns), rows))


# The only type that orjson does not know is bytes, which are JSON: this avoids a Python call for each value.
_raw_json: Final = orjson.Fragment


def _csv(columns: Sequence[str], chunks: Iterator[Chunk]) -> Iterator[bytes]:
    """RFC 4180 with CRLF; NULL is an empty field, arrays and JSON are written as JSON text."""
    yield _csv_lines([columns])
    for chunk in chunks:
        yield _csv_lines([text_field(value) for value in row[: len(columns)]] for row in chunk)


def _csv_lines(rows: Iterable[Sequence[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode()


def text_field(value: Any) -> str:
    """Return a value as the text of a CSV field."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case bytes():
            return value.decode()
        case list():
            return orjson.dumps(value, default=_raw_json).decode()
        case _:
            return str(value)


def field_text(value: bytes | None) -> str | None:
    """Return a field of a record as text: a string without its quotes, structures as JSON text, None for any null."""
    if value is None or value == b"null":
        return None
    return str(orjson.loads(value)) if value.startswith(b'"') else value.decode()


_ENCODERS: Final[Mapping[ResultFormat, Callable[[Sequence[str], Iterator[Chunk]], Iterator[Buffer]]]] = {
    ResultFormat.JSON: _json,
    ResultFormat.NDJSON: _ndjson,
    ResultFormat.CSV: _csv,
}


_ENCODERS_OF_CHUNKS: Final[Mapping[ResultFormat, Callable[[Sequence[str], Iterator[Chunk]], Iterator[bytes]]]] = {
    ResultFormat.NDJSON: _ndjson_of_chunks,
    ResultFormat.CSV: _csv,
}
STREAMED_FORMATS: Final = frozenset(_ENCODERS_OF_CHUNKS)


def _redacted(chunk: Chunk) -> Chunk:
    # Most chunks have no address: one look at all their values together, as JSON, costs less than one at each.
    if not json_may_contain_address(orjson.dumps(chunk, default=_raw_json).decode()):
        return chunk
    return [[_redact_value(value) for value in row] for row in chunk]


def _redact_value(value: Any) -> Any:
    match value:
        case str():
            return redact_text(value)
        case bytes():
            document = value.decode()
            return redact_json(document).encode() if json_may_contain_address(document) else value
        case list():
            return [_redact_value(element) for element in value]
        case _:
            return value
