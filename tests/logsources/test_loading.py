"""Loading into a real log database: everything or nothing, and every row as it was sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

import orjson
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import Connection

from logsources import loading
from logsources.databases import owner_connection
from logsources.loading import BadLine, LoadAborted, LoadProgress, LoadReport, OnBadLine, load_rows
from logsources.models import LogSource
from logsources.rolling import partition_days
from logsources.rows import read_row
from logsources.services import create_source
from tests.moments import now

pytestmark = pytest.mark.sql


def noon() -> datetime:
    return now().replace(hour=12, minute=0, second=0, microsecond=0)


@pytest.fixture
def plain(logs: Connection[Any]) -> LogSource:
    return create_source(name="loaded_rows", holds="rows", project_location="row field", retention_days=30)


@pytest.fixture
def nested(logs: Connection[Any]) -> LogSource:
    return create_source(
        name="loaded_events", holds="rows", project_location="metadata", project_path="tenant.ref", retention_days=30
    )


def line(number: int, **fields: object) -> bytes:
    row = {
        "id": f"row-{number}",
        "timestamp": noon().isoformat(),
        "project": "acme",
        "event_message": f"message {number}",
    }
    return orjson.dumps(row | fields)


def load(source: LogSource, lines: Iterable[bytes], **options: Any) -> LoadReport:
    return load_rows(source, lines, on_bad_line=options.pop("on_bad_line", OnBadLine.ABORT), **options)


def ids(logs: Connection[Any], table: str = "loaded_rows") -> list[str]:
    return [row_id for (row_id,) in logs.execute(f"SELECT id FROM logs.{table} ORDER BY id")]


def test_a_line_over_the_limit_of_a_row_is_a_bad_line(logs: Connection[Any], plain: LogSource, settings: Any) -> None:
    settings.ENDPOINTS_MAX_ROW_BYTES = 1000
    reason = "message and metadata have 1004 bytes as they are stored, more than 1000"
    lines = [line(1), line(2, event_message="x" * 1000), line(3)]
    with pytest.raises(LoadAborted) as aborted:
        load(plain, lines)
    assert str(aborted.value) == f"line 2: {reason}"
    assert ids(logs) == []
    report = load(plain, lines, on_bad_line=OnBadLine.SKIP)
    assert (report.loaded, report.bad_lines) == (2, (BadLine(2, reason),))
    assert ids(logs) == ["row-1", "row-3"]


def test_made_ids_and_times_ascend_in_the_order_of_the_lines(
    logs: Connection[Any], plain: LogSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    class SetBackClock(datetime):
        readings = iter([noon(), noon(), noon() + timedelta(seconds=1), *[noon()] * 100])

        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return next(cls.readings)

    monkeypatch.setattr(loading, "datetime", SetBackClock)
    load(plain, [line(number, id=None, timestamp=None) for number in range(25)], batch_rows=4)
    in_order = [f"message {number}" for number in range(25)]
    found = logs.execute("SELECT event_message FROM logs.loaded_rows ORDER BY timestamp, id")
    assert [message for (message,) in found] == in_order
    assert len(set(logs.execute("SELECT timestamp FROM logs.loaded_rows"))) == 2


# --- What is stored ---------------------------------------------------------------------------------------------------


def test_a_row_without_a_project_has_the_one_of_the_source(logs: Connection[Any], plain: LogSource) -> None:
    plain.default_project = "shop"
    load(plain, [b'{"event_message": "m"}', line(1)])
    assert set(logs.execute("SELECT project FROM logs.loaded_rows")) == {("shop",), ("acme",)}


def test_loads_every_row_in_small_batches(logs: Connection[Any], plain: LogSource) -> None:
    report = load(plain, [line(number) for number in range(25)], batch_rows=4)
    assert report == LoadReport(loaded=25, duplicates=0, bad_line_count=0, bad_lines=())
    assert ids(logs) == sorted(f"row-{number}" for number in range(25))


def test_stores_metadata_wrapped_and_the_project_as_sent(logs: Connection[Any], plain: LogSource) -> None:
    load(plain, [line(1, metadata={"request": {"path": "/x"}})])
    stored = logs.execute("SELECT project, timestamp, event_message, metadata FROM logs.loaded_rows").fetchone()
    assert stored == ("acme", noon(), "message 1", [{"request": [{"path": "/x"}]}])


def test_stores_the_project_that_metadata_has(logs: Connection[Any], nested: LogSource) -> None:
    load(nested, [
        line(1, project=None, metadata={"tenant": {"ref": "acme"}}),
        line(2, project="globex"),
        line(3, project=None, metadata={"tenant": {"ref": 42}}),
        line(4, project=None, metadata=[{"a": 1}, {"tenant": {"ref": ["initech"]}}]),
    ])  # fmt: skip
    stored = logs.execute("SELECT project FROM logs.loaded_events ORDER BY id").fetchall()
    assert stored == [("acme",), ("globex",), ("42",), ("initech",)]


def test_keeps_the_digits_of_numbers(logs: Connection[Any], plain: LogSource) -> None:
    load(plain, [b'{"event_message": "m", "project": "a", "metadata": {"n": 123456789012345678901234567890.5}}'])
    (digits,) = logs.execute("SELECT metadata #>> '{0,n}' FROM logs.loaded_rows").fetchone() or ("",)
    assert digits == "123456789012345678901234567890.5"


AWKWARD_TEXT = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20
) | st.sampled_from(
    [
        "\\",
        "\\.",
        "\\N",
        "\t",
        "\n",
        "\r\n",
        '"',
        "'",
        "\\u0000",
        "\\\\u0000",
        "\x7f\x80",
        "é",
        "e\u0301",
        "\U0001f600",
        "\ufeff",
        "",
    ]
)
ROWS = st.fixed_dictionaries(
    {
        "id": AWKWARD_TEXT.filter(bool),
        "project": AWKWARD_TEXT.filter(bool),
        "event_message": AWKWARD_TEXT,
        "timestamp": st.timedeltas(timedelta(days=-20), timedelta(days=5)).map(lambda ago: (noon() + ago).isoformat()),
        "metadata": st.dictionaries(
            AWKWARD_TEXT, AWKWARD_TEXT | st.lists(AWKWARD_TEXT) | st.integers(-(2**63), 2**64 - 1), max_size=4
        ),
    }
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(ROWS, max_size=6, unique_by=lambda row: row["id"]))
def test_a_loaded_row_reads_back_as_it_was_normalised(
    logs: Connection[Any], plain: LogSource, rows: list[dict[str, Any]]
) -> None:
    logs.execute("TRUNCATE logs.loaded_rows")
    assert load(plain, map(orjson.dumps, rows)).loaded == len(rows)
    stored = logs.execute("SELECT id, project, timestamp, event_message, metadata FROM logs.loaded_rows").fetchall()
    wanted = [read_row(row, project_path=None, now=noon()) for row in rows]
    by_id = {row.id: (row.project, row.timestamp, row.event_message, orjson.loads(row.metadata_json)) for row in wanted}
    assert {row_id: tuple(values) for row_id, *values in stored} == by_id


# --- Days -------------------------------------------------------------------------------------------------------------


def test_makes_the_partitions_that_the_rows_need(logs: Connection[Any], plain: LogSource) -> None:
    days = [noon() - timedelta(days=ago) for ago in (0, 20, 3, 20, 10)]
    load(plain, [line(number, timestamp=day.isoformat()) for number, day in enumerate(days)])
    assert {day.date() for day in days} <= partition_days(logs, "loaded_rows")
    assert logs.execute("SELECT count(*) FROM logs.loaded_rows_default").fetchone() == (0,)


def test_rows_of_days_without_partition_are_loaded_all_the_same(logs: Connection[Any], plain: LogSource) -> None:
    old, recent = noon() - timedelta(days=300), noon() - timedelta(days=15)
    days = [old, recent, old, recent - timedelta(days=1), noon()]
    report = load(plain, [line(number, timestamp=day.isoformat()) for number, day in enumerate(days)])
    assert report.loaded == len(ids(logs)) == 5
    assert old.date() not in partition_days(logs, "loaded_rows")


def test_readers_are_not_held_up_while_a_load_runs(logs: Connection[Any], plain: LogSource) -> None:
    def lines() -> Iterator[bytes]:
        for ago in range(20):
            yield line(ago, timestamp=(noon() - timedelta(days=ago)).isoformat())
            logs.execute("SET lock_timeout = '2s'")
            assert logs.execute("SELECT count(*) FROM logs.loaded_rows").fetchone() == (0,)

    assert load(plain, lines(), batch_rows=2).loaded == 20


# --- Duplicates -------------------------------------------------------------------------------------------------------


def test_a_second_load_of_the_same_rows_adds_nothing(logs: Connection[Any], plain: LogSource) -> None:
    lines = [line(number) for number in range(10)]
    load(plain, lines)
    report = load(plain, lines, batch_rows=3)
    assert (report.loaded, report.duplicates) == (0, 10)
    assert len(ids(logs)) == 10


def test_only_the_rows_that_are_there_already_are_left_out(logs: Connection[Any], plain: LogSource) -> None:
    load(plain, [line(number) for number in (3, 7, 11)])
    report = load(plain, [line(number) for number in (*range(20), 5, 5)], batch_rows=4)
    assert (report.loaded, report.duplicates) == (17, 5)
    assert ids(logs) == sorted(f"row-{number}" for number in range(20))


def test_the_same_id_at_another_moment_is_another_row(plain: LogSource) -> None:
    later = (noon() + timedelta(microseconds=1)).isoformat()
    assert load(plain, [line(1), line(1, timestamp=later)]).loaded == 2


def test_the_same_id_and_moment_of_another_project_is_another_row(plain: LogSource) -> None:
    lines = [line(1), line(1, project="globex")]
    assert load(plain, lines).loaded == 2
    assert load(plain, [*lines, line(1, project="initech")]).loaded == 1


def test_counts_the_rows_that_came_and_not_what_the_server_says_of_them(
    plain: LogSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psycopg.Cursor, "rowcount", property(lambda self: 99))
    report = load(plain, [line(number) for number in (1, 2, 1)])
    assert (report.loaded, report.duplicates) == (2, 1)


# --- Bad lines --------------------------------------------------------------------------------------------------------

BAD_LINES = {2: b"{nonsense", 4: b'{"event_message": 1}', 5: b'{"event_message": "\xff"}', 8: b'"text"'}


def mixed_lines() -> list[bytes]:
    return [BAD_LINES.get(number, line(number)) for number in range(1, 11)]


def test_skips_and_reports_bad_lines_by_number(logs: Connection[Any], plain: LogSource) -> None:
    report = load(plain, mixed_lines(), on_bad_line=OnBadLine.SKIP, batch_rows=2)
    assert report.loaded == len(ids(logs)) == 6
    assert report.bad_line_count == 4
    assert [bad.number for bad in report.bad_lines] == [2, 4, 5, 8]
    assert report.bad_lines[2].reason == "the line is not UTF-8 (byte 20)"


def test_the_first_bad_line_ends_the_load_with_nothing_loaded(logs: Connection[Any], plain: LogSource) -> None:
    lines = [*(line(number) for number in range(100)), b"{nonsense", b"[]"]
    with pytest.raises(LoadAborted) as aborted:
        load(plain, lines, batch_rows=10)
    assert aborted.value.bad_line.number == 101
    assert ids(logs) == []


def test_blank_lines_count_but_are_not_rows(plain: LogSource) -> None:
    report = load(plain, [b"\n", line(1), b"  \t\r\n", b"", b"{"], on_bad_line=OnBadLine.SKIP)
    assert report.loaded == 1
    assert [bad.number for bad in report.bad_lines] == [5]


def test_lists_the_first_hundred_bad_lines_and_counts_the_rest(plain: LogSource) -> None:
    report = load(plain, [b"{"] * 250, on_bad_line=OnBadLine.SKIP)
    assert report.bad_line_count == 250
    assert [bad.number for bad in report.bad_lines] == list(range(1, 101))


@pytest.fixture
def refusing(logs: Connection[Any], plain: LogSource) -> LogSource:
    """A table in which PostgreSQL refuses some rows that look sound from outside."""
    logs.execute("ALTER TABLE logs.loaded_rows ADD CHECK (event_message NOT LIKE 'refused%')")
    return plain


def test_finds_the_row_that_postgresql_refuses(logs: Connection[Any], refusing: LogSource) -> None:
    lines = [line(number, event_message="refused" if number in {4, 13} else "fine") for number in range(20)]
    report = load(refusing, lines, on_bad_line=OnBadLine.SKIP, batch_rows=8)
    refusal = "PostgreSQL refuses the row: CheckViolation (SQLSTATE 23514)"
    assert report.bad_lines == (BadLine(5, refusal), BadLine(14, refusal))
    assert report.loaded == len(ids(logs)) == 18


def test_a_row_that_postgresql_refuses_ends_the_load(logs: Connection[Any], refusing: LogSource) -> None:
    with pytest.raises(LoadAborted, match=r"line 7: PostgreSQL refuses the row") as aborted:
        load(refusing, [line(number, event_message="refused" if number > 5 else "") for number in range(20)])
    assert aborted.value.bad_line.number == 7
    assert ids(logs) == []


# --- Endings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [KeyboardInterrupt, OSError("disk gone"), EOFError])
def test_nothing_stays_when_reading_is_interrupted(
    logs: Connection[Any], plain: LogSource, ending: BaseException | type[BaseException]
) -> None:
    def lines() -> Iterator[bytes]:
        yield from (line(number) for number in range(50))
        raise ending

    with pytest.raises(ending if isinstance(ending, type) else type(ending)):
        load(plain, lines(), batch_rows=7)
    assert ids(logs) == []
    assert load(plain, [line(1)]).loaded == 1


def test_nothing_stays_when_the_server_ends_the_connection(logs: Connection[Any], plain: LogSource) -> None:
    def lines() -> Iterator[bytes]:
        yield from (line(number) for number in range(50))
        logs.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND query LIKE 'COPY %' AND pid <> pg_backend_pid()"
        )
        yield from (line(number) for number in range(50, 100))

    with pytest.raises(psycopg.OperationalError):
        load(plain, lines(), batch_rows=20)
    assert ids(logs) == []


def test_a_missing_table_is_an_error_of_postgresql(logs: Connection[Any]) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable):
        load(LogSource(name="no_such_table"), [line(1)])


def test_no_lines_are_no_rows(plain: LogSource) -> None:
    assert load(plain, []) == LoadReport(0, 0, 0, ())


def test_tells_how_far_it_is(plain: LogSource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "PROGRESS_EVERY_LINES", 2)
    told: list[LoadProgress] = []
    load(plain, [line(1), b"{", line(3), b"", line(5)], on_bad_line=OnBadLine.SKIP, progress=told.append)
    assert told == [LoadProgress(2, 0), LoadProgress(4, 1), LoadProgress(5, 1)]


def test_two_loads_at_once_share_the_table(logs: Connection[Any], plain: LogSource) -> None:
    def lines() -> Iterator[bytes]:
        yield line(1)
        # The other load commits its rows for days without a partition while this one runs.
        days = (noon() - timedelta(days=ago) for ago in (5, 6, 300))
        assert load(plain, [line(9, timestamp=day.isoformat()) for day in days]).loaded == 3
        yield line(2, timestamp=(noon() - timedelta(days=5)).isoformat())
        yield line(9, timestamp=(noon() - timedelta(days=6)).isoformat())

    report = load(plain, lines(), batch_rows=1)
    assert (report.loaded, report.duplicates) == (2, 1)
    with owner_connection() as other:
        assert other.execute("SELECT count(*) FROM logs.loaded_rows").fetchone() == (5,)
