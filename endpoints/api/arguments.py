"""Reads a call's arguments from the query string and the body; unreadable input is refused, never guessed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import parse_qsl

from endpoints.errors import InvalidRequest, UnsupportedMediaType
from endpoints.sql.parameters import RawScalar, RawValue
from logsources.json_batches import holds_more_than

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
_MAX_FIELDS = 1000
_REPEATED = "is sent more than once"


@dataclass(frozen=True, slots=True)
class RawArguments:
    """Arguments as sent; a repeated name has a list of values: only the endpoint knows whether that is allowed."""

    values: dict[str, RawValue] = field(default_factory=dict)
    repeated: frozenset[str] = frozenset()

    def overridden_by(self, other: RawArguments) -> RawArguments:
        """Return all arguments; if a name is in both places, the other's value counts, unless that is empty."""
        sent = {name: value for name, value in other.values.items() if value != "" or name not in self.values}
        return RawArguments(
            values={**self.values, **sent}, repeated=(self.repeated - sent.keys()) | (other.repeated & sent.keys())
        )


def read_query_string(query_string: bytes) -> RawArguments:
    """Return the arguments of a query string or form.

    Raises InvalidRequest for bytes that are not UTF-8, NUL characters and more than 1000 fields.
    """
    try:
        pairs = parse_qsl(
            query_string.decode("utf-8"),
            keep_blank_values=True,
            encoding="utf-8",
            errors="strict",
            max_num_fields=_MAX_FIELDS,
        )
    except UnicodeDecodeError as error:
        raise InvalidRequest("The arguments are not percent-encoded UTF-8.") from error
    except ValueError as error:
        raise InvalidRequest(f"A request may have at most {_MAX_FIELDS} arguments.") from error
    return from_pairs(pairs)


def from_pairs(pairs: Iterable[tuple[str, str]]) -> RawArguments:
    """Return the arguments of a form's fields in order. Raises InvalidRequest for text that PostgreSQL cannot store."""
    arguments: dict[str, str] = {}
    repeated: dict[str, list[RawScalar]] = {}
    for name, value in pairs:
        _refuse_unstorable(name, value)
        if name not in arguments:
            arguments[name] = value
            continue
        repeated.setdefault(name, [arguments[name]]).append(value)
    return RawArguments(values={**arguments, **repeated}, repeated=frozenset(repeated))


def read_body(content_type: str, body: bytes) -> RawArguments:
    """Return the arguments of a JSON object or form body; an empty body has none.

    Raises UnsupportedMediaType for another content type, and InvalidRequest for a body that cannot be read or whose
    objects together have more than 1000 members.
    """
    if not body:
        return RawArguments()
    if content_type == JSON:
        return from_json(read_json(body))
    if content_type == FORM:
        return read_query_string(body)
    raise UnsupportedMediaType([JSON, FORM, MULTIPART])


def read_json(body: bytes) -> Any:
    """Return a JSON text: numbers with a fraction as Decimal, every name of an object once.

    Raises InvalidRequest for what is not JSON, and for objects that together have more than 1000 members.
    """
    if holds_more_than(_MAX_FIELDS, (b":",), body):
        raise InvalidRequest(f"A request may have at most {_MAX_FIELDS} arguments.")
    try:
        return json.loads(
            body.decode("utf-8-sig"),
            object_pairs_hook=_unrepeated,
            parse_float=_decimal,
            parse_int=lambda digits: _decimal(digits) if digits == "-0" else int(digits),
            parse_constant=_refuse_constant,
        )
    except UnicodeDecodeError as error:
        raise InvalidRequest("The body is not UTF-8.") from error
    except RecursionError as error:
        raise InvalidRequest("The body is nested too deeply.") from error
    except json.JSONDecodeError as error:
        raise InvalidRequest(
            f"The body is not JSON: line {error.lineno}, column {error.colno}: {error.msg}."
        ) from error
    except ValueError as error:
        # An integer of thousands of digits: Python refuses to convert it.
        raise InvalidRequest("The body contains a number that is too long.") from error


def from_json(document: object) -> RawArguments:
    """Return the arguments in a JSON object. Raises InvalidRequest, also for text that PostgreSQL cannot store."""
    if not isinstance(document, dict):
        raise InvalidRequest("The body must be a JSON object of arguments.")
    for name, value in document.items():
        _refuse_unstorable(name, value)
    return RawArguments(values=document)


def _unrepeated(pairs: Sequence[tuple[str, RawValue]]) -> dict[str, RawValue]:
    if len(pairs) > _MAX_FIELDS:
        raise InvalidRequest(f"A request may have at most {_MAX_FIELDS} arguments.")
    values = dict(pairs)
    if len(values) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        repeated = sorted(name for name, count in counts.items() if count > 1)
        raise InvalidRequest(details=[{"name": name, "reason": _REPEATED} for name in repeated])
    return values


class _Written(Decimal):
    """A number whose text is what was sent, such as 1E2 or -0; Decimal's own text is 1E+2."""

    written: str

    def __str__(self) -> str:
        return self.written


def _decimal(digits: str) -> Decimal:
    try:
        number = _Written(digits)
    except InvalidOperation as error:
        raise InvalidRequest("The body contains a number that is out of range.") from error
    number.written = digits
    return number


def _refuse_constant(name: str) -> RawValue:
    raise InvalidRequest(f"The body is not JSON: {name} is not a JSON value.")


def _refuse_unstorable(name: str, value: object) -> None:
    """PostgreSQL text can contain neither NUL characters nor lone surrogates."""
    texts = [name, *(value if isinstance(value, list) else [value])]
    for text in texts:
        if isinstance(text, str) and ("\0" in text or not _encodes(text)):
            raise InvalidRequest("An argument contains a NUL character or half of a surrogate pair.")


def _encodes(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
