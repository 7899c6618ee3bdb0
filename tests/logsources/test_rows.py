"""One raw row -> the row that is stored, or the reason why not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logsources.ndjson import parse_line
from logsources.rows import BadRow, Row, read_row

NOW = datetime(2025, 6, 2, 12, tzinfo=UTC)


def raw_row(**fields: object) -> dict[str, object]:
    return {"event_message": "GET | 200", "project": "acme", **fields}


def read(raw: object, *, project_path: str | None = None) -> Row:
    return read_row(raw, project_path=project_path, now=NOW)


def stored_metadata(metadata: object) -> Any:
    return orjson.loads(read(raw_row(metadata=metadata)).metadata_json)


def reason(raw: object, *, project_path: str | None = None) -> str:
    with pytest.raises(BadRow) as refused:
        read(raw, project_path=project_path)
    return refused.value.reason


# --- The default project ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "path", "project", "metadata"),
    [
        ({}, None, "shop", [{}]),
        ({"project": None}, None, "shop", [{}]),
        ({"project": "acme"}, None, "acme", [{}]),
        ({}, "tenant.ref", "shop", [{"tenant": [{"ref": "shop"}]}]),
        ({"project": "acme"}, "tenant.ref", "acme", [{"tenant": [{"ref": "acme"}]}]),
        ({"metadata": {"tenant": {"ref": "acme"}}}, "tenant.ref", "acme", [{"tenant": [{"ref": "acme"}]}]),
    ],
)
def test_a_row_that_names_no_project_has_the_default(
    fields: dict[str, Any], path: str | None, project: str, metadata: list[Any]
) -> None:
    row = read_row({"event_message": "m", **fields}, project_path=path, now=NOW, default_project="shop")
    assert (row.project, orjson.loads(row.metadata_json)) == (project, metadata)


@pytest.mark.parametrize("project", ["", 7])
def test_the_default_hides_no_wrong_project(project: object) -> None:
    with pytest.raises(BadRow, match="project is"):
        read_row({"event_message": "m", "project": project}, project_path=None, now=NOW, default_project="shop")


# --- Metadata ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metadata", "stored"),
    [
        ({"request": {"path": "/x"}}, [{"request": [{"path": "/x"}]}]),
        ([{"request": {"path": "/x"}}], [{"request": [{"path": "/x"}]}]),
        ([{"request": [{"path": "/x"}]}], [{"request": [{"path": "/x"}]}]),
        ({"a": {"b": {"c": 1}}}, [{"a": [{"b": [{"c": 1}]}]}]),
        ({"args": ["x", 1, None, True]}, [{"args": ["x", 1, None, True]}]),
        ({"items": [{"a": {"b": 1}}, {"a": 2}]}, [{"items": [{"a": [{"b": 1}]}, {"a": 2}]}]),
        ({"mixed": [1, {"a": {}}]}, [{"mixed": [1, {"a": [{}]}]}]),
        ({"nested": [[{"a": {"b": 1}}]]}, [{"nested": [[{"a": [{"b": 1}]}]]}]),
        ([{"a": 1}, {"b": {"c": 2}}], [{"a": 1}, {"b": [{"c": 2}]}]),
        ({"empty": {}, "none": [], "null": None}, [{"empty": [{}], "none": [], "null": None}]),
        ({}, [{}]),
        ([], [{}]),
        (None, [{}]),
    ],
)
def test_wraps_every_object_of_metadata_into_an_array(metadata: object, stored: object) -> None:
    assert stored_metadata(metadata) == stored


def test_missing_metadata_is_one_empty_object() -> None:
    assert read(raw_row()).metadata_json == b"[{}]"


JSON_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8)
NAMES = JSON_TEXT.map(lambda text: text.replace(".", "_"))  # names with dots become objects: see test_stored_form
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | JSON_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)
METADATA = st.dictionaries(NAMES, JSON_VALUES, max_size=4)


def unwrapped(value: Any) -> Any:
    """What a producer sent, as far as wrapping lets tell: one-element arrays of an object are the object."""
    if isinstance(value, list):
        return unwrapped(value[0]) if len(value) == 1 and isinstance(value[0], dict) else [unwrapped(i) for i in value]
    return {key: unwrapped(item) for key, item in value.items()} if isinstance(value, dict) else value


def has_bare_object(value: Any) -> bool:
    if isinstance(value, dict):
        return any(isinstance(item, dict) or has_bare_object(item) for item in value.values())
    return isinstance(value, list) and any(has_bare_object(item) for item in value)


@settings(max_examples=200, deadline=None)
@given(METADATA)
def test_wrapping_twice_changes_nothing_and_loses_nothing(metadata: dict[str, Any]) -> None:
    stored = stored_metadata(metadata)
    assert stored_metadata(stored) == stored
    assert not has_bare_object(stored)
    assert unwrapped(stored) == unwrapped(metadata)


def test_leaves_the_raw_row_as_it_is() -> None:
    raw = raw_row(metadata={"request": {"path": "/x"}}, level="info")
    before = orjson.dumps(raw)
    read(raw)
    assert orjson.dumps(raw) == before


@pytest.mark.parametrize("metadata", ["text", 1, True, [1], [{"a": 1}, "x"], [[{"a": 1}]]])
def test_refuses_metadata_that_is_not_made_of_objects(metadata: object) -> None:
    assert reason(raw_row(metadata=metadata)) == "metadata must be an object or an array of objects"


@pytest.mark.parametrize("depth", [300, 3000])
def test_refuses_metadata_nested_too_deeply(depth: int) -> None:
    metadata: dict[str, Any] = {}
    for _ in range(depth):
        metadata = {"a": metadata}
    assert "metadata" in reason(raw_row(metadata=metadata))


@pytest.mark.parametrize("character", ["\x00", chr(0xD800), chr(0xDFFF), "\x00" + chr(0xD83D)])
@pytest.mark.parametrize("around", ["{}", "a{}b", "\\{}", "é{}\U0001f600"])
def test_replaces_what_text_cannot_hold(character: str, around: str) -> None:
    text, mended = around.format(character), around.format("\ufffd" * len(character))
    for sent, message, metadata in (
        ({"metadata": {"a": [text]}}, "m", [{"a": [mended]}]),
        ({"metadata": {text: 1}}, "m", [{mended: 1}]),
        ({"metadata": [{"a": {"b": [{text: {text: text}}]}}]}, "m", [{"a": [{"b": [{mended: [{mended: mended}]}]}]}]),
        ({"event_message": text}, mended, [{}]),
        ({"other": text}, "m", [{"other": mended}]),
        ({text: "other"}, "m", [{mended: "other"}]),
    ):
        row = read(raw_row(**({"event_message": "m", "metadata": {}} | sent)))
        assert (row.event_message, orjson.loads(row.metadata_json)) == (message, metadata)
        assert row.has_replacements


def test_a_row_without_such_characters_has_no_replacements() -> None:
    row = read(raw_row(event_message="\ufffd\U0001f600\\u0000", metadata={"\ufffd": "\\u0000"}))
    assert not row.has_replacements
    assert orjson.loads(row.metadata_json) == [{"\ufffd": "\\u0000"}]


def test_two_names_that_become_one_stay_two() -> None:
    row = read(raw_row(metadata={f"a{chr(code)}": value for value, code in enumerate((0, 0xD800, 0xFFFD), 1)}))
    assert sorted(orjson.loads(row.metadata_json)[0].values()) == [1, 2, 3]


@pytest.mark.parametrize("depth", [300, 700, 900, 3000])
def test_what_is_replaced_deep_inside_fails_no_more_than_without(depth: int) -> None:
    metadata: dict[str, Any] = {"a": "\x00"}
    for _ in range(depth):
        metadata = {"a": metadata}
    assert "metadata" in reason(raw_row(metadata=metadata))


@pytest.mark.parametrize("text", ["\x00", "a\x00b", "\\\x00"])
def test_refuses_nul_characters_in_keys(text: str) -> None:
    assert reason(raw_row(id=text)).startswith("id contains a NUL character")
    assert reason(raw_row(project=text)).startswith("project contains a NUL character")


@pytest.mark.parametrize("text", ["\\u0000", "\\\\u0000", "u0000", "\\" * 3 + "u0000"])
def test_keeps_backslashes_that_only_look_like_a_nul(text: str) -> None:
    assert stored_metadata({"a": text}) == [{"a": text}]


def test_refuses_lone_surrogates_in_keys() -> None:
    assert "surrogate" in reason(raw_row(id="\ud800"))
    assert "surrogate" in reason(raw_row(project="\ud800"))


# --- Fields without a column ------------------------------------------------------------------------------------------


def test_moves_fields_without_a_column_into_metadata() -> None:
    row = read(raw_row(metadata={"a": 1}, level="info", host={"name": "h"}))
    assert orjson.loads(row.metadata_json) == [{"a": 1, "level": "info", "host": [{"name": "h"}]}]


def test_a_field_that_metadata_holds_as_well_is_one_field() -> None:
    row = read(raw_row(metadata={"host": {"name": "h"}}, host={"name": "h"}))
    assert orjson.loads(row.metadata_json) == [{"host": [{"name": "h"}]}]


def test_refuses_a_field_that_metadata_holds_with_another_value() -> None:
    refused = reason(raw_row(metadata={"level": "warning-value"}, level="info-value"))
    assert "'level'" in refused
    assert "value" not in refused


# --- Project ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("project", "expected"),
    [
        (None, "project is missing"),
        ("", "project is empty"),
        (7, "project is not text"),
        ("x" * 256, "project is longer than 255 characters"),
    ],
)
def test_refuses_a_row_field_that_is_no_project(project: object, expected: str) -> None:
    assert reason(raw_row(project=project)) == expected


@pytest.mark.parametrize(
    ("metadata", "project"),
    [
        ({"tenant": {"ref": "acme"}}, "acme"),
        ({"tenant": [{"ref": "acme"}]}, "acme"),
        ({"tenant": {"ref": ["acme"]}}, "acme"),
        ([{"other": 1}, {"tenant": {"ref": "acme"}}], "acme"),
        ({"tenant": {"ref": 42}}, "42"),
    ],
)
def test_finds_the_project_inside_metadata(metadata: object, project: str) -> None:
    assert read({"event_message": "m", "metadata": metadata}, project_path="tenant.ref").project == project


@pytest.mark.parametrize(
    "metadata", [None, {}, {"tenant": "acme"}, {"tenant": {}}, {"ref": "acme"}, {"tenant": {"ref": None}},
                 {"tenant": {"ref": True}}, {"tenant": {"ref": {"a": 1}}}, {"tenant": {"ref": "x" * 256}}]
)  # fmt: skip
def test_says_where_the_project_was_looked_for(metadata: object) -> None:
    refused = reason({"event_message": "m", "metadata": metadata}, project_path="tenant.ref")
    assert refused == "there is no project in metadata (tenant.ref)"


def test_refuses_an_empty_project_inside_metadata() -> None:
    refused = reason({"event_message": "m", "metadata": {"ref": ""}}, project_path="ref")
    assert refused == "the project in metadata (ref) is empty"


@pytest.mark.parametrize(
    ("metadata", "stored"),
    [
        (None, [{"tenant": [{"ref": "acme"}]}]),
        ({"a": 1}, [{"a": 1, "tenant": [{"ref": "acme"}]}]),
        ({"tenant": {"b": 2}}, [{"tenant": [{"b": 2, "ref": "acme"}]}]),
        ({"tenant": {"ref": "acme"}}, [{"tenant": [{"ref": "acme"}]}]),
    ],
)
def test_puts_a_project_sent_beside_metadata_where_it_belongs(metadata: object, stored: object) -> None:
    row = read(raw_row(metadata=metadata), project_path="tenant.ref")
    assert orjson.loads(row.metadata_json) == stored


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"tenant": {"ref": "globex"}}, "project differs from the one in metadata (tenant.ref)"),
        ({"tenant": "globex"}, "project cannot be added to metadata (tenant.ref)"),
        ({"tenant": {"ref": True}}, "the value in metadata (tenant.ref) cannot be a project"),
    ],
)
def test_refuses_a_project_that_contradicts_metadata(metadata: object, expected: str) -> None:
    assert reason(raw_row(metadata=metadata), project_path="tenant.ref") == expected


# --- Message, id, timestamp -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", [None, [], "text", 1, [{"event_message": "m"}]])
def test_refuses_what_is_not_an_object(raw: object) -> None:
    assert reason(raw) == "the row must be a JSON object"


@pytest.mark.parametrize(("message", "expected"), [(None, "is missing"), (1, "is not text"), ({}, "is not text")])
def test_refuses_a_row_without_message(message: object, expected: str) -> None:
    assert reason(raw_row(event_message=message)) == f"event_message {expected}"


def test_an_empty_message_is_a_message() -> None:
    assert read(raw_row(event_message="")).event_message == ""


@pytest.mark.parametrize(("sent", "stored"), [("a-1", "a-1"), (17, "17"), (0, "0"), (-(2**63), str(-(2**63)))])
def test_keeps_the_id_as_text(sent: object, stored: str) -> None:
    assert read(raw_row(id=sent)).id == stored


@pytest.mark.parametrize("fields", [{}, {"id": None}])
def test_a_missing_id_becomes_a_random_uuid(fields: dict[str, object]) -> None:
    ids = {read(raw_row(**fields)).id for _ in range(10)}
    assert len(ids) == 10
    assert all(UUID(made).version == 4 for made in ids)


@pytest.mark.parametrize("sent", ["", "x" * 256, 1.5, True, [], {}, orjson.Fragment(b"1" * 30)])
def test_refuses_other_ids(sent: object) -> None:
    assert reason(raw_row(id=sent)).startswith(("id is", "id must be"))


MOMENT = datetime(2025, 6, 2, 8, 15, 4, 201_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        (None, NOW),
        ("2025-06-02T08:15:04.201Z", MOMENT),
        ("2025-06-02T08:15:04.201000", MOMENT),
        ("2025-06-02 08:15:04.201", MOMENT),
        ("2025-06-02T10:15:04.201+02:00", MOMENT),
        ("2025-06-02T08:15:04.201000999Z", MOMENT),
        ("2025-06-02", datetime(2025, 6, 2, tzinfo=UTC)),
        ("20250602", datetime(2025, 6, 2, tzinfo=UTC)),
        (1748852104, MOMENT.replace(microsecond=0)),
        (1748852104.201, MOMENT),
        (1748852104201, MOMENT),
        (1748852104201000, MOMENT),
        ("1748852104201", MOMENT),
        ("2000-01-01T00:00:00Z", datetime(2000, 1, 1, tzinfo=UTC)),
        (NOW.replace(year=2026).isoformat(), NOW.replace(year=2026)),
    ],
)
def test_reads_timestamps_as_utc(sent: object, stored: datetime) -> None:
    timestamp = read(raw_row(timestamp=sent)).timestamp
    assert timestamp == stored
    assert timestamp.utcoffset() == timedelta()


@pytest.mark.parametrize(
    "sent",
    ["", "yesterday", "2025-06-32", "2025-13-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "1999-12-31T23:59:59Z",
     "2027-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00", "20111104123", 0, 1, -1748852104, 17488521041, 1e30, 1e9 - 1,
     True, [], {}, "12345678901234567890"],
)  # fmt: skip
def test_refuses_absurd_timestamps(sent: object) -> None:
    assert reason(raw_row(timestamp=sent)).startswith(("timestamp is", "timestamp must be"))


@settings(max_examples=100, deadline=None)
@given(
    st.datetimes(datetime(2000, 1, 2), datetime(2026, 6, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    st.integers(-14 * 60, 14 * 60),
)
def test_a_timestamp_means_the_same_in_every_zone_and_unit(moment: datetime, offset_minutes: int) -> None:
    elsewhere = moment.astimezone(timezone(timedelta(minutes=offset_minutes))).isoformat()
    assert read(raw_row(timestamp=elsewhere)).timestamp == moment
    if moment.year > 2001:
        microseconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        assert read(raw_row(timestamp=microseconds)).timestamp == moment


# --- The size of a row ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "size"),
    [
        ({"event_message": "x" * 90}, 94),
        ({"event_message": "é" * 50}, 104),  # bytes, and not characters
        ({"metadata": {"a": "x" * 80}}, 99),
        ({"metadata": {"a": "é" * 50}}, 119),
        ({"metadata": {"a": "\x01" * 20}}, 139),  # as the JSON text that is stored: \u0001
        ({"metadata": {"a": {"b": {"c": {"d": 1}}}}}, 42),  # in stored form
        ({"metadata": {"a.b.c.d.e.f.g": 1}}, 66),
        ({"elsewhere": "x" * 80}, 107),
        ({"metadata": {"a": 1e300, "b": -1.5e-300}}, 637),  # PostgreSQL writes every digit
        ({"metadata": {"a": [parse_line(b"1E5000"), parse_line(b"0.10000000000000000001E-99")]}}, 5151),
        ({"metadata": {"a": "[1e300,2e300]"}}, 32),  # no numbers
        ({"metadata": {'a":1e300,"': 1}}, 29),
        ({"metadata": {"a": False, "b": True, "c": 1.25}}, 40),
    ],
)
def test_refuses_a_row_that_is_larger_as_stored_and_says_by_how_much(fields: dict[str, Any], size: int) -> None:
    raw = {"project": "acme", "event_message": "nine more", **fields}
    options: dict[str, Any] = {"project_path": None, "now": NOW}
    row = read_row(raw, **options, max_bytes=size)
    assert row.project == "acme"
    with pytest.raises(BadRow) as refused:
        read_row(raw, **options, max_bytes=size - 1)
    assert refused.value.reason == f"message and metadata have {size} bytes as they are stored, more than {size - 1}"


def test_a_row_may_have_a_mebibyte_by_default() -> None:
    read(raw_row(event_message="x" * (1024 * 1024 - 4)))
    assert "1048577 bytes" in reason(raw_row(event_message="x" * (1024 * 1024 - 3)))
