"""NDJSON: the lines of a file and the value of a line. Knows nothing about rows.

orjson parses a line in a few microseconds. If it would lose digits (integers over 64 bits, decimals that a float cannot
hold) or refuses the line, the standard library's parser reads the line again: it shows every number as written and has
better error messages.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from functools import cache
from typing import Any, BinaryIO, Final, NoReturn, cast

import orjson

MAX_LINE_BYTES: Final = 8 * 1024 * 1024

_GZIP_MAGIC: Final = b"\x1f\x8b"
_BUFFER_BYTES: Final = 1024 * 1024
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
# Numbers that a float may not hold exactly, in a line in which all digits and points are replaced by zeros: 16
# characters or more, or an exponent below -99. (orjson itself refuses one that is too large.) Matches inside strings
# only cost the time of the slower parser; a regular expression without them took 27 us for a line of 2 kB, this 4.
_ZEROS_FOR_DIGITS: Final = bytes.maketrans(b"0123456789.E", b"00000000000e")
_LONG_NUMBER: Final = b"0" * 16
_SMALL_NUMBER: Final = b"0e-000"
_INT64_DIGITS: Final = 18  # every integer with so many digits fits: Unix microseconds have 16
# PostgreSQL's numeric, which jsonb uses for numbers ("Numeric Types"): digits before and after the decimal point.
_MAX_DIGITS_BEFORE_POINT: Final = 131_072
_MAX_DIGITS_AFTER_POINT: Final = 16_383
_MAX_NUMBER_CHARACTERS: Final = _MAX_DIGITS_BEFORE_POINT + _MAX_DIGITS_AFTER_POINT + 32  # sign, point and exponent too


class BadJSON(Exception):
    """A line that is not one JSON value; `reason` says where and why without quoting it."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


# --- Lines ------------------------------------------------------------------------------------------------------------


def decompressed(file: BinaryIO) -> BinaryIO:
    """Return the file, or its decompressed content if it starts like gzip; also for pipes, which cannot seek.

    Reading damaged gzip data raises gzip.BadGzipFile, EOFError or zlib.error.
    """
    buffered = file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast("io.RawIOBase", file))
    if buffered.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC):
        return cast("BinaryIO", io.BufferedReader(gzip.GzipFile(fileobj=buffered), _BUFFER_BYTES))
    return cast("BinaryIO", buffered)


def read_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of the file, one item a line, without a byte order mark at the start.

    Memory stays bounded: a line over MAX_LINE_BYTES is cut to MAX_LINE_BYTES plus one byte, so a caller that counts
    lines also sees that it is too long.
    """
    line = file.readline(MAX_LINE_BYTES + 1).removeprefix(BYTE_ORDER_MARK)
    while line:
        yield line
        if len(line) > MAX_LINE_BYTES:
            _skip_rest(file, line)
        line = file.readline(MAX_LINE_BYTES + 1)


def _skip_rest(file: BinaryIO, part: bytes) -> None:
    while part and not part.endswith(b"\n"):
        part = file.readline(_BUFFER_BYTES)


# --- One line ---------------------------------------------------------------------------------------------------------


def parse_line(line: bytes) -> object:
    """Return the value of the line: dict, list, str, int, float, bool or None; raise BadJSON.

    A number that neither int of 64 bits nor float holds exactly becomes an orjson.Fragment of its own text, which
    orjson writes out unchanged.
    """
    if len(line) > MAX_LINE_BYTES:
        raise BadJSON(f"the line is longer than {MAX_LINE_BYTES // 1024**2} MiB")
    if not may_lose_digits(line):
        try:
            return orjson.loads(line)
        except orjson.JSONDecodeError:
            pass
    return _parse_exactly(line)


def may_lose_digits(text: bytes) -> bool:
    """Tell whether the JSON text may contain a number that orjson would not keep digit for digit."""
    shapes = text.translate(_ZEROS_FOR_DIGITS)
    if _SMALL_NUMBER in shapes:
        return True
    start = shapes.find(_LONG_NUMBER)
    while start >= 0:
        run = shapes[start : start + _INT64_DIGITS + 1]
        digits = len(run) - len(run.lstrip(b"0"))
        if digits > _INT64_DIGITS or run[digits : digits + 1] == b"e" or b"." in text[start : start + digits]:
            return True
        start = shapes.find(_LONG_NUMBER, start + digits)
    return False


def _parse_exactly(line: bytes) -> object:
    try:
        return exact_decoder().decode(line.decode())
    except UnicodeDecodeError as fault:
        raise BadJSON(f"the line is not UTF-8 (byte {fault.start + 1})") from None
    except json.JSONDecodeError as fault:
        raise BadJSON(f"the line is not JSON: {fault.msg.rstrip(': ')} (column {fault.colno})") from None
    except RecursionError:
        raise BadJSON("the line is nested too deeply") from None


@cache
def exact_decoder() -> json.JSONDecoder:
    """Return the decoder that keeps every digit; it raises BadJSON for a number that PostgreSQL cannot hold."""
    return json.JSONDecoder(parse_int=_exact_integer, parse_float=_exact_number, parse_constant=_refuse_constant)


def _exact_integer(digits: str) -> Any:
    if len(digits) <= _INT64_DIGITS:
        return int(digits)
    if len(digits) <= _INT64_DIGITS + 2 and -(2**63) <= int(digits) < 2**64:
        return int(digits)
    return _fragment(digits, _exactly(digits))


def _exact_number(text: str) -> Any:
    exact, number = _exactly(text), float(text)
    return number if exact == Decimal(repr(number)) else _fragment(text, exact)


def _exactly(text: str) -> Decimal:
    # Numbers that are too long for PostgreSQL need not be read; the same goes for those that even Decimal cannot hold.
    if len(text) <= _MAX_NUMBER_CHARACTERS:
        with suppress(ArithmeticError):
            return Decimal(text)
    raise BadJSON("it contains a number beyond PostgreSQL's range")


def _fragment(text: str, exact: Decimal) -> orjson.Fragment:
    exponent = int(exact.as_tuple().exponent)  # finite: JSON has no NaN and no infinity
    if exact.adjusted() >= _MAX_DIGITS_BEFORE_POINT or -exponent > _MAX_DIGITS_AFTER_POINT:
        raise BadJSON("it contains a number beyond PostgreSQL's range")
    return orjson.Fragment(text)


def _refuse_constant(constant: str) -> NoReturn:
    raise BadJSON(f"it is not JSON: it contains {constant}")
