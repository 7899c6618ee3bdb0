"""The rows of one body: a JSON array, `{"batch": [row, …]}`, a single object, or NDJSON; its beginning decides.

In each form a row is read in the same way as `ndjson.parse_line` reads a line of a file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import orjson

from logsources.ndjson import BYTE_ORDER_MARK, BadJSON, exact_decoder, may_lose_digits, parse_line

# --- Json counts ------------------------------------------------------------------------------------------------------
# Counts the values of JSON text before any is created: Python takes 200 bytes for a value of two bytes.
#
# The text is read in short steps: one step of a regular expression or of bytes.count() keeps all other threads of the
# process waiting, 30 ms for 6 MB.
_STEP_BYTES: Final = 65_536
# An unclosed string ends with its line, because no string spans lines: so each byte is looked at once.
_STRING: Final = rb'"[^"\\\n]*+(?>(?:\\[^\n][^"\\\n]*+)*)"?'
_STRINGS: Final = re.compile(_STRING)
# A step never ends inside a string.
_STEP: Final = re.compile(rb'(?>(?:[^"]{1,1024}+|' + _STRING + rb"){1,64})")


def holds_more_than(most: int, marks: Sequence[bytes], text: bytes) -> bool:
    """Tell whether a JSON text, well formed or not, has so many of these characters outside its strings."""
    return _exceeds(most, marks, _slices(text)) and _exceeds(most, marks, _without_strings(text))


def _exceeds(most: int, marks: Sequence[bytes], pieces: Iterator[bytes]) -> bool:
    found = 0
    for piece in pieces:
        found += sum(map(piece.count, marks))
        if found > most:
            return True
    return False


def _slices(text: bytes) -> Iterator[bytes]:
    for start in range(0, len(text), _STEP_BYTES):
        yield text[start : start + _STEP_BYTES]


def _without_strings(text: bytes) -> Iterator[bytes]:
    for step in _STEP.finditer(text):
        yield _STRINGS.sub(b"", step[0])


# --- Json batches -----------------------------------------------------------------------------------------------------
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_BLANKS: Final = b" \t\n\r"
_EXACT: Final = exact_decoder()
# Finds the end of a value that the exact decoder refuses: it converts nothing, so no number is too long for it.
_LENIENT: Final = json.JSONDecoder(parse_int=str, parse_float=str)

# A body of 16 MiB has 8,000 rows of 2 kB, each of about forty values.
MAX_ROWS: Final = 100_000
VALUES_PER_ROW: Final = 10  # on average, over the largest number of rows
_BATCH: Final = re.compile(rb'\{[ \t\n\r]*"batch"[ \t\n\r]*:[ \t\n\r]*\[')
# In JSON text without its strings each value, and each key with its value, follows one of these.
_BEGINNINGS: Final = (b",", b"[", b"{")


class TooManyRows(Exception):
    """A body with too many rows, or too many values in them: at most `limit` of `what` are allowed."""

    def __init__(self, limit: int, what: str) -> None:
        self.limit = limit
        self.what = what
        super().__init__(f"more than {limit} {what}")


def read_rows(body: bytes, *, max_rows: int = MAX_ROWS) -> list[Any]:
    """Return the parsed rows of a body, with a BadJSON in place of each unreadable row.

    Raises BadJSON if the body has no rows at all, or it is unclear where they begin and end. Before it reads any row,
    it raises TooManyRows if there are more lines than rows allowed, or more than ten times as many values.
    """
    text = body.removeprefix(BYTE_ORDER_MARK).strip(_BLANKS)
    if not text:
        raise BadJSON("the body is empty")
    if holds_more_than(max_rows * VALUES_PER_ROW, _BEGINNINGS, text):
        raise TooManyRows(max_rows * VALUES_PER_ROW, "values")
    if text.startswith(b"[") or _BATCH.match(text):
        rows = _read_document(text)
        if len(rows) > max_rows:
            raise TooManyRows(max_rows, "rows")
        return rows
    if text.count(b"\n") >= max_rows:
        raise TooManyRows(max_rows, "lines")
    lines = [line for line in text.split(b"\n") if line.strip(_BLANKS)]
    if len(lines) > 1 and isinstance(_read_line(lines[0]), BadJSON):
        whole = _read_line(text)  # a single object over several lines
        if not isinstance(whole, BadJSON):
            return [whole]
    return [_read_line(line) for line in lines]


def _read_line(line: bytes) -> Any:
    try:
        return parse_line(line)
    except BadJSON as fault:
        return fault


def _read_document(text: bytes) -> list[Any]:
    if not may_lose_digits(text):
        try:
            return _rows_of(orjson.loads(text))
        except orjson.JSONDecodeError:
            pass
    try:
        return list(_read_items(text.decode())) if text.startswith(b"[") else _rows_of(_EXACT.decode(text.decode()))
    except UnicodeDecodeError as fault:
        raise BadJSON(f"the body is not UTF-8 (byte {fault.start + 1})") from None
    except json.JSONDecodeError as fault:
        reason = fault.msg.rstrip(": ")
        raise BadJSON(f"the body is not JSON: {reason} (line {fault.lineno}, column {fault.colno})") from None
    except RecursionError:
        raise BadJSON("the body is nested too deeply") from None


def _rows_of(document: Any) -> list[Any]:
    """Return the rows of an array, or of the object that has them in `batch`; its other members say nothing of rows."""
    rows = document if document.__class__ is list else document["batch"]
    if rows.__class__ is not list:  # the object has `batch` twice
        raise BadJSON("batch must be an array")
    found: list[Any] = rows
    return found


def _read_items(text: str) -> Iterator[Any]:
    at = _skip_space(text, 1)
    if text[at : at + 1] == "]":
        _expect_end(text, at + 1)
        return
    while True:
        try:
            item, end = _EXACT.raw_decode(text, at)
        except BadJSON as fault:
            item, end = fault, _LENIENT.raw_decode(text, at)[1]
        yield item
        at = _skip_space(text, end)
        if text[at : at + 1] == "]":
            _expect_end(text, at + 1)
            return
        if text[at : at + 1] != ",":
            raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
        at = _skip_space(text, at + 1)


def _expect_end(text: str, at: int) -> None:
    if at != len(text):
        raise json.JSONDecodeError("Extra data", text, at)


def _skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()
