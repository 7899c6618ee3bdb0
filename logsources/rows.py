"""One raw log row -> one row in the form that log tables store, or the reason why not. Pure: no I/O, no Django.

A raw row is a JSON object as a producer sends it::

    {"event_message": "GET | 200 | …", "project": "acme", "metadata": {"request": {"path": "/x"}}}

In stored form, `metadata` is an array of objects, and every object inside it is in an array too, so that one way of
unnesting reads them all: `[{"request": [{"path": "/x"}]}]`; `stored_form` has the rule. A row that is already in stored
form does not change.

Nothing in a row is lost: a top-level field without its own column moves into metadata, numbers keep digits that a float
would drop. U+FFFD stands for what text cannot hold (NUL characters, lone surrogates); an id or a project with one is
refused, because two could become one.
Reasons name fields and rules, never a value: they go to terminals and logs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any, Final, NamedTuple
from uuid import uuid4

import orjson

from logsources.field_names import find_message, find_time
from logsources.moments import read_moment, unix_moment
from logsources.stored_form import Members, StoredMetadata, expand_names, wrap_object
from logsources.tables import MAX_KEY_CHARACTERS

FIELDS: Final = frozenset({"id", "project", "timestamp", "event_message", "metadata"})
# A clock that is wrong by more is broken, not late; and every day may cost a partition.
EARLIEST: Final = datetime(2000, 1, 1, tzinfo=UTC)
LATEST_AHEAD: Final = timedelta(days=366)
MAX_ROW_BYTES: Final = 1024 * 1024  # of message and metadata: the default of ENDPOINTS_MAX_ROW_BYTES

_MAX_NAMED_CHARACTERS: Final = 60  # characters of a field name quoted in a reason
_PROJECT_NUMBERS_BELOW: Final = 10**18  # whole numbers up to here, of either sign, may be a project inside metadata
# The escape of NUL, without an odd number of backslashes before it: `\\u0000` is a backslash and the text u0000.
_NUL_ESCAPE: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
# jsonb writes 1e+308 out, with 309 digits. A rough and fast search tells whether that can matter.
_ZEROS_FOR_DIGITS: Final = bytes.maketrans(b"123456789E", b"000000000e")
_JSON_STRING: Final = re.compile(rb'"(?>(?:[^"\\]++|\\.)*)"')
_LARGE_EXPONENTS: Final = (b"0e+0", b"0e-0", b"0e000")
_EXPONENT: Final = re.compile(rb"[eE][-+]?([0-9]++)")
_LARGEST_EXPONENT: Final = 131_072


class BadRow(Exception):
    """A row that cannot be stored; `reason` names the fault without a value of the row."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class _UnstorableText(BadRow):
    """A row with text that PostgreSQL cannot hold."""


class Row(NamedTuple):
    """A row as stored; `timestamp` is in UTC, and without `has_own_time` that of the row's arrival.

    With `has_replacements`, U+FFFD stands in message or metadata for what text cannot hold.
    """

    id: str
    project: str
    timestamp: datetime
    event_message: str
    metadata_json: bytes
    has_own_time: bool = True
    has_replacements: bool = False


def ascending_ids() -> Callable[[], str]:
    """Return what makes ids for the rows without one of a load: each is behind the one before."""
    beginning, numbers = str(uuid4())[:24], count()  # 74 random bits of the UUID are left
    return lambda: f"{beginning}{next(numbers):012x}"


def read_row(
    raw: object,
    *,
    project_path: str | None,
    now: datetime,
    default_project: str = "",
    new_id: Callable[[], str] | None = None,
    max_bytes: int = MAX_ROW_BYTES,
) -> Row:
    """Return the stored form of a parsed row; raise BadRow. `raw` is not changed.

    `project_path` is the dotted path of the project inside metadata, None if it is the row's own field;
    `default_project` is the project of a row that names none.
    The message and the time are where `field_names` finds them. A missing id comes from `new_id`, else it is a new one;
    a missing time is `now`. A row with more than `max_bytes` of message and metadata, as they are stored, is refused.
    Timestamps are what `moments` reads, or a datetime.
    """
    try:
        return _read_row(raw, project_path, now, default_project, new_id, max_bytes)
    except _UnstorableText:  # tried first: a search through every row would cost each of them
        keys = {name: raw[name] for name in ("id", "project") if name in raw}  # type: ignore[index,operator]
        try:
            raw = with_replacements(raw) | keys
        except RecursionError:
            raise BadRow("metadata is nested too deeply") from None
        row = _read_row(raw, project_path, now, default_project, new_id, max_bytes)
        return row._replace(has_replacements=True)


def with_replacements(value: Any) -> Any:
    """Return any value with U+FFFD in place of each character that text cannot hold, names included."""
    if isinstance(value, str):
        return _UNSTORABLE.sub("\ufffd", value)
    if isinstance(value, list):
        return value.__class__(map(with_replacements, value))
    if not isinstance(value, dict):
        return value
    found: dict[str, Any] = {}
    for name, inner in value.items():
        name = with_replacements(name)
        while name in found:  # two names have become one
            name += "\ufffd"
        found[name] = with_replacements(inner)
    return found


def _read_row(
    raw: object,
    project_path: str | None,
    now: datetime,
    default_project: str,
    new_id: Callable[[], str] | None,
    max_bytes: int,
) -> Row:
    if not isinstance(raw, dict):
        raise BadRow("the row must be a JSON object")
    try:
        dotted: list[Members] = []
        metadata = _read_metadata(raw.get("metadata"), dotted)
        message, message_field = find_message(raw)
        time, time_field = find_time(raw)
        if not FIELDS.issuperset(raw):
            _move_other_fields(raw, metadata[0], {*FIELDS, message_field, time_field}, dotted)
        if dotted:
            expand_names(dotted)
        if project_path is None:
            sent = raw.get("project")
            project = _read_key_text((default_project or None) if sent is None else sent, "project")
        else:
            project = _read_project_in_metadata(raw.get("project"), metadata, project_path, default_project)
        metadata_json = orjson.dumps(metadata)
    except RecursionError:
        raise BadRow("metadata is nested too deeply") from None
    except TypeError as fault:  # orjson's error for values that do not fit JSON; it quotes no values
        raise _UnstorableText(f"metadata cannot be stored: {fault}") from None
    if b"\\u0000" in metadata_json and _NUL_ESCAPE.search(metadata_json):
        raise _UnstorableText("metadata contains a NUL character (\\u0000), which PostgreSQL cannot store")
    row = Row(
        (new_id or ascending_ids())() if raw.get("id") is None else _read_id(raw["id"]),
        project,
        now if time is None else _read_time(time, time_field, now),
        _read_text(message, "event_message"),
        metadata_json,
        time is not None,
    )
    _refuse_large(row, max_bytes)
    return row


def _refuse_large(row: Row, max_bytes: int) -> None:
    message, metadata = row.event_message, row.metadata_json
    size = len(metadata) + (len(message) if message.isascii() else len(message.encode()))
    exponents = sum(map(metadata.translate(_ZEROS_FOR_DIGITS).count, _LARGE_EXPONENTS))
    if size + exponents * _LARGEST_EXPONENT > max_bytes:
        size += sum(map(int, _EXPONENT.findall(_JSON_STRING.sub(b"", metadata))))
    if size > max_bytes:
        raise BadRow(f"message and metadata have {size} bytes as they are stored, more than {max_bytes}")


# --- Metadata ---------------------------------------------------------------------------------------------------------


def _read_metadata(value: object, dotted: list[Members]) -> list[Members]:
    if value.__class__ is StoredMetadata:
        return value
    # Never an empty array: a query that unnests metadata would drop the row.
    if not value and (value is None or isinstance(value, (dict, list))):
        return [{}]
    if isinstance(value, dict):
        return [wrap_object(value, dotted)]
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return [wrap_object(item, dotted) for item in value]
    raise BadRow("metadata must be an object or an array of objects")


def _move_other_fields(raw: Members, first: Members, known: Container[str], dotted: list[Members]) -> None:
    """Put top-level fields without a column into the first metadata object; the same value twice is one value."""
    others = wrap_object({name: value for name, value in raw.items() if name not in known}, dotted)
    for name, value in others.items():
        if name in first and orjson.dumps(first[name]) != orjson.dumps(value):
            named = name[:_MAX_NAMED_CHARACTERS]
            raise BadRow(f"the field {named!r} differs from the field with the same name in metadata")
        first[name] = value
    if dotted and dotted[-1] is others:
        dotted[-1] = first  # their names with dots belong there now


# --- Project ----------------------------------------------------------------------------------------------------------


def _read_project_in_metadata(outside: object, metadata: list[dict[str, Any]], path: str, default: str) -> str:
    """Return the project at the path; move a project from outside metadata, or the default, there first."""
    keys = path.split(".")
    found = _project_at(metadata, keys)
    if outside is None and found is None and default:
        outside = default
    if outside is not None:
        sent = _read_key_text(outside, "project")
        if found is None:
            _put(metadata[0], keys, sent)
            found = _project_at(metadata, keys)
        elif found != sent:
            raise BadRow(f"project differs from the one in metadata ({path})")
    if found is None:
        raise BadRow(f"there is no project in metadata ({path})")
    return _read_key_text(found, f"the project in metadata ({path})")


def _project_at(metadata: list[dict[str, Any]], keys: list[str]) -> str | None:
    """Return the first text or whole number at the path, written as PostgreSQL writes it with `#>> '{}'`.

    None if there is none, or if it is too long for a project.
    """
    for value in _values_at(metadata, keys):
        text = value if isinstance(value, str) else _whole_number_text(value)
        if text is not None:
            return text if len(text) <= MAX_KEY_CHARACTERS else None
    return None


def _whole_number_text(value: object) -> str | None:
    """Return a whole number below the limit as jsonb writes it: with its digits after the point, never an exponent."""
    if isinstance(value, bool) or not isinstance(value, (int, float, orjson.Fragment)):
        return None
    # What counts is the text that is stored, such as `1e+17`, and not the text that was sent.
    number = Decimal(orjson.dumps(value).decode())
    if not -_PROJECT_NUMBERS_BELOW < number < _PROJECT_NUMBERS_BELOW or number != int(number):
        return None
    return format(number if number else number.copy_abs(), "f")  # jsonb has no -0


def _values_at(values: list[Any], keys: list[str]) -> Iterator[object]:
    # Like a lax jsonpath, which at every step looks one level deep into the items of an array.
    if not keys:
        for value in values:
            yield from value if isinstance(value, list) else [value]
        return
    members: list[Any] = [item for value in values for item in (value if isinstance(value, list) else [value])]
    yield from _values_at([item[keys[0]] for item in members if isinstance(item, dict) and keys[0] in item], keys[1:])


def _put(members: dict[str, Any], keys: list[str], value: str) -> None:
    for key in keys[:-1]:
        inner = members.setdefault(key, [{}])
        if not (isinstance(inner, list) and inner and isinstance(inner[0], dict)):
            raise BadRow(f"project cannot be added to metadata ({'.'.join(keys)})")
        members = inner[0]
    if keys[-1] in members:
        raise BadRow(f"the value in metadata ({'.'.join(keys)}) cannot be a project")
    members[keys[-1]] = value


# --- The other columns ------------------------------------------------------------------------------------------------


def _read_text(value: object, field: str) -> str:
    if value is None:
        raise BadRow(f"{field} is missing")
    if not isinstance(value, str):
        raise BadRow(f"{field} is not text")
    if "\x00" in value:
        raise _UnstorableText(f"{field} contains a NUL character (\\u0000), which PostgreSQL cannot store")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _UnstorableText(f"{field} contains a lone surrogate, which UTF-8 cannot encode") from None
    return value


def _read_key_text(value: object, field: str) -> str:
    text = _read_text(value, field)
    if not text:
        raise BadRow(f"{field} is empty")
    if len(text) > MAX_KEY_CHARACTERS:
        raise BadRow(f"{field} is longer than {MAX_KEY_CHARACTERS} characters")
    return text


def _read_id(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise BadRow("id must be text or an integer of 64 bits")
    return _read_key_text(value, "id")


def _read_time(value: object, field: str, now: datetime) -> datetime:
    try:
        if isinstance(value, str):
            moment = read_moment(value)
        elif isinstance(value, datetime):  # of a form whose times are exact
            moment = value
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            moment = unix_moment(value)
        else:
            raise BadRow(f"{field} must be text or a number")
    except ValueError as fault:
        raise BadRow(f"{field} {fault}") from None
    if not EARLIEST <= moment <= now + LATEST_AHEAD:
        raise BadRow(f"{field} is before {EARLIEST.year} or more than {LATEST_AHEAD.days} days ahead")
    return moment
