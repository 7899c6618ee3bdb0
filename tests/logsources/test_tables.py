from __future__ import annotations

import string
from datetime import UTC, date, datetime
from random import Random

import pytest
from psycopg import errors

from logsources import rolling, tables
from logsources.databases import owner_connection
from logsources.tables import ColumnType, ExtractedColumnShape, TableShape

pytestmark = [pytest.mark.django_db(databases=["default", "logs"]), pytest.mark.sql]

LONG_PATH = "a.b"


def make(logs, shape) -> None:
    for statement in tables.create_table(shape):
        logs.execute(statement)


def extracted(logs, insert, *, column_type, metadata, path=LONG_PATH, indexed=True):
    """Load one row of this metadata and return what the extracted column holds."""
    make(logs, TableShape("odd_rows", None, (ExtractedColumnShape("value", path, column_type, indexed),)))
    insert("odd_rows", metadata=metadata)
    return logs.execute("SELECT value FROM logs.odd_rows").fetchone()[0]


def at(value):
    return [{"a": [{"b": value}]}]


ANYTHING_ELSE = [
    [],
    [{}],
    5,
    "text",
    None,
    [[{"a": {"b": 1}}]],
    [{"a": None}],
    [{"a": [{"c": 1}]}],
    at(None),
    at([]),
    at({}),
    at({"b": "x"}),
    at([["x"]]),
]


@pytest.mark.parametrize("column_type", list(ColumnType))
@pytest.mark.parametrize("metadata", ANYTHING_ELSE)
def test_other_metadata_extracts_null(logs, insert, column_type, metadata) -> None:
    assert extracted(logs, insert, column_type=column_type, metadata=metadata) is None


@pytest.mark.parametrize("metadata", [at("x"), {"a": {"b": "x"}}, [{"a": {"b": "x"}}], [{}, {"a": [{}, {"b": "x"}]}]])
def test_objects_and_arrays_of_one_object_read_the_same(logs, insert, metadata) -> None:
    assert extracted(logs, insert, column_type=ColumnType.TEXT, metadata=metadata) == "x"


@pytest.mark.parametrize(
    ("column_type", "value", "held"),
    [
        (ColumnType.TEXT, "", ""),
        (ColumnType.TEXT, 7, "7"),
        (ColumnType.TEXT, 1.50, "1.5"),
        (ColumnType.TEXT, True, "true"),
        (ColumnType.TEXT, ["first", "second"], "first"),
        (ColumnType.TEXT, "naïve 🎈 'quoted' \\ \"x\" \n", "naïve 🎈 'quoted' \\ \"x\" \n"),
        (ColumnType.INTEGER, 7, 7),
        (ColumnType.INTEGER, -(2**63), -(2**63)),
        (ColumnType.INTEGER, 2**63 - 1, 2**63 - 1),
        (ColumnType.INTEGER, 2**63, None),
        (ColumnType.INTEGER, -(2**63) - 1, None),
        (ColumnType.INTEGER, 10**4000, None),
        (ColumnType.INTEGER, 2.0, 2),
        (ColumnType.INTEGER, 2.5, None),
        (ColumnType.INTEGER, "7", None),
        (ColumnType.INTEGER, True, None),
        (ColumnType.INTEGER, ["x", 7], 7),
        (ColumnType.NUMBER, 2.5, 2.5),
        (ColumnType.NUMBER, 7, 7.0),
        (ColumnType.NUMBER, 1.7e308, 1.7e308),
        (ColumnType.NUMBER, 10**400, None),
        (ColumnType.NUMBER, "2.5", None),
        (ColumnType.NUMBER, "NaN", None),
        (ColumnType.NUMBER, False, None),
        (ColumnType.BOOLEAN, True, True),
        (ColumnType.BOOLEAN, False, False),
        (ColumnType.BOOLEAN, "true", None),
        (ColumnType.BOOLEAN, 1, None),
    ],
)
def test_extracts_values_of_its_type_alone(logs, insert, column_type, value, held) -> None:
    assert extracted(logs, insert, column_type=column_type, metadata=at(value)) == held


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2025-06-02T08:15:09Z", datetime(2025, 6, 2, 8, 15, 9, tzinfo=UTC)),
        ("2025-06-02T10:15:09+02:00", datetime(2025, 6, 2, 8, 15, 9, tzinfo=UTC)),
        ("2025-06-02T08:15:07.412093771+00:00", datetime(2025, 6, 2, 8, 15, 7, 412094, tzinfo=UTC)),
        ("2025-06-02 08:15:04.201 UTC", datetime(2025, 6, 2, 8, 15, 4, 201000, tzinfo=UTC)),
        ("2025-06-02 08:15", datetime(2025, 6, 2, 8, 15, tzinfo=UTC)),
        ("2025-06-02", datetime(2025, 6, 2, tzinfo=UTC)),
        ("2025-06-02T08:15:04-0530", datetime(2025, 6, 2, 13, 45, 4, tzinfo=UTC)),
        ("2024-02-29", datetime(2024, 2, 29, tzinfo=UTC)),
        ("2025-02-29", None),
        ("2025-13-01", None),
        ("2025-06-02T25:00:00Z", None),
        ("0000-01-01", None),
        ("2025-06-02T08:15:04+99", None),
        ("2025-06-02T08:15:04 Europe/Berlin", None),
        ("now", None),
        ("today", None),
        ("infinity", None),
        ("06/02/2025", None),
        ("2025-06-02\n", None),
        ("", None),
        (1748852109, None),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_reads_iso_timestamps_as_utc_whatever_the_session_says(logs, insert, text, moment, zone) -> None:
    make(logs, TableShape("odd_rows", None, (ExtractedColumnShape("value", LONG_PATH, ColumnType.TIMESTAMP, True),)))
    logs.execute(f"SET TIME ZONE '{zone}'")
    logs.execute("SET DateStyle = 'SQL, DMY'")
    insert("odd_rows", metadata=at(text))
    logs.execute("RESET DateStyle")
    assert logs.execute("SELECT value FROM logs.odd_rows").fetchone() == (moment,)


@pytest.mark.parametrize("project_path", [None, "project_ref"])
def test_a_row_says_its_project_in_every_source(logs, project_path) -> None:
    make(logs, TableShape("odd_rows", project_path))
    insert = "INSERT INTO logs.odd_rows ({}id, timestamp, event_message, metadata) VALUES ({}'1', now(), '', '[]')"
    with pytest.raises(errors.NotNullViolation):
        logs.execute(insert.format("", ""))
    logs.execute(insert.format("project, ", "'', "))


@pytest.mark.parametrize("key", ["cf-ray", "0", "_", "SELECT", "x-" * 90])
def test_path_takes_any_allowed_key(logs, insert, key) -> None:
    held = extracted(logs, insert, column_type=ColumnType.TEXT, metadata=[{"a": [{key: "x"}]}], path=f"a.{key}")
    assert held == "x"


@pytest.mark.parametrize(
    "name",
    ['x"; DROP SCHEMA logs CASCADE; --', "select", "x'y", "x.y", "x{} $1", 'ünïcödé "quoted"', "x\\", "X y"],
)
def test_a_name_is_never_read_as_sql(logs, insert, name) -> None:
    """Names are validated long before; here not even a hostile one does harm."""
    column = ExtractedColumnShape(name, "a", ColumnType.TEXT, indexed=True)
    make(logs, TableShape(name, "p'; --", (column,)))
    for statement in tables.create_day_table(name, date(2025, 6, 2)):
        logs.execute(statement)
    logs.execute(tables.attach_day_table(name, date(2025, 6, 2)))
    insert(name, metadata=[{"a": "x"}])
    found = logs.execute("SELECT count(*) FROM pg_class WHERE relname = %s AND relkind = 'p'", (name,)).fetchone()
    assert found == (1,)


def test_path_is_never_read_as_jsonpath(logs, insert) -> None:
    first, second = path = 'a" ? (1 == 1) || $', '"b'
    make(logs, TableShape("odd_rows", None, (ExtractedColumnShape("value", ".".join(path), ColumnType.TEXT),)))
    insert("odd_rows", metadata=[{"a": "x", "b": "y", first: {second: "z"}}])
    assert logs.execute("SELECT value FROM logs.odd_rows").fetchone() == ("z",)


@pytest.mark.parametrize("length", [2_000, 3_000, 9_000, 1_000_000])
def test_indexed_text_of_any_length_is_loaded_and_found(logs, insert, length) -> None:
    # Random, so that compression does not make it short.
    url = "https://acme.example.com/?q=" + "".join(Random(length).choices(string.ascii_letters, k=length))
    assert extracted(logs, insert, column_type=ColumnType.TEXT, metadata=at(url)) == url
    logs.execute("SET enable_seqscan = off")
    assert logs.execute("SELECT count(*) FROM logs.odd_rows WHERE value = %s", (url,)).fetchone() == (1,)


@pytest.mark.parametrize("condition", ["value = 'https://a/b'", "value ^@ 'https://a'", "value LIKE 'https://a/%'"])
def test_index_of_text_serves_equality_and_prefix(logs, condition) -> None:
    make(logs, TableShape("odd_rows", None, (ExtractedColumnShape("value", "a", ColumnType.TEXT, indexed=True),)))
    logs.execute("SET enable_seqscan = off")
    plan = "\n".join(row[0] for row in logs.execute(f"EXPLAIN SELECT * FROM logs.odd_rows WHERE {condition}"))
    assert "value_idx" in plan
    assert "Index Cond" in plan


def test_longest_keys_fit_the_index(logs, insert) -> None:
    make(logs, TableShape("odd_rows", None))
    # Four bytes each, and nothing comes twice, so that compression makes nothing shorter.
    longest = "".join(chr(0x10000 + number * 4_099 % 0xFFFFF) for number in range(1, tables.MAX_KEY_CHARACTERS + 1))
    insert("odd_rows", id=longest, project=longest)
    stored = logs.execute("SELECT pg_column_size(id), pg_column_size(project) FROM logs.odd_rows").fetchone()
    assert min(stored) >= 4 * tables.MAX_KEY_CHARACTERS


def test_a_day_is_utc_whatever_the_session_says(logs, insert) -> None:
    make(logs, TableShape("odd_rows", None))
    logs.execute("SET TIME ZONE 'Pacific/Auckland'")
    day = date(2025, 9, 28)  # summer time begins in Auckland at 14:00 UTC the day before
    for statement in tables.create_day_table("odd_rows", day):
        logs.execute(statement)
    logs.execute(tables.attach_day_table("odd_rows", day))
    moments = {
        "last of the day before": datetime(2025, 9, 27, 23, 59, 59, 999_999, tzinfo=UTC),
        "first": datetime(2025, 9, 28, tzinfo=UTC),
        "last": datetime(2025, 9, 28, 23, 59, 59, 999_999, tzinfo=UTC),
        "first of the day after": datetime(2025, 9, 29, tzinfo=UTC),
    }
    for id, moment in moments.items():
        insert("odd_rows", id=id, timestamp=moment)
    held = logs.execute("SELECT array_agg(id ORDER BY timestamp) FROM logs.odd_rows_p20250928").fetchone()
    assert held == (["first", "last"],)


def test_partition_has_the_indexes_of_its_parent(logs) -> None:
    make(logs, TableShape("odd_rows", None, (ExtractedColumnShape("value", "a", ColumnType.TEXT, indexed=True),)))
    for statement in tables.create_day_table("odd_rows", date(2025, 6, 2)):
        logs.execute(statement)
    logs.execute(tables.attach_day_table("odd_rows", date(2025, 6, 2)))
    indexes = logs.execute(
        "SELECT am.amname, c.reloptions FROM pg_index JOIN pg_class c ON c.oid = indexrelid"
        " JOIN pg_am am ON am.oid = relam"
        " WHERE indrelid = 'logs.odd_rows_p20250602'::regclass AND c.relispartition ORDER BY 1"
    ).fetchall()
    assert indexes == [("brin", ["autosummarize=on"]), ("btree", None), ("btree", None), ("spgist", None)]


def test_a_project_has_a_row_once(logs, insert) -> None:
    make(logs, TableShape("odd_rows", None))
    insert("odd_rows", id="1", project="acme")
    insert("odd_rows", id="1", project="globex")
    with pytest.raises(errors.UniqueViolation):
        insert("odd_rows", id="1", project="acme")


def test_nothing_changes_the_table_until_the_transaction_ends(logs) -> None:
    make(logs, TableShape("odd_rows", "project_ref"))
    rolling.place_day(logs, "odd_rows", datetime.now(UTC).date())
    logs.execute("SET lock_timeout = '10ms'")
    change = "ALTER TABLE logs.odd_rows ALTER COLUMN event_message DROP NOT NULL"
    with owner_connection() as load:
        with load.transaction():
            load.execute(tables.hold_table("odd_rows"))
            with pytest.raises(errors.LockNotAvailable):
                logs.execute(change)
            assert load.execute(
                "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation IN"
                " (SELECT inhrelid FROM pg_inherits WHERE inhparent = to_regclass('logs.odd_rows'))"
            ).fetchone() == (0,)
        logs.execute(change)
