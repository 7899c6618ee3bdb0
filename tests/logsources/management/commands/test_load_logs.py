"""manage.py load_logs: files and pipes, what is said on which stream, and the exit code."""

from __future__ import annotations

import gzip
import io
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from django.core.management import CommandError, call_command
from django.core.management.base import OutputWrapper
from psycopg import Connection

from logsources import loading
from logsources.generation import SOURCE_NAMES, generate_rows
from logsources.management import load_progress
from logsources.models import LogSource
from logsources.partitions import MAX_RETENTION_DAYS
from logsources.services import create_source
from tests.moments import now

pytestmark = pytest.mark.sql

LINES = [orjson.dumps({"id": f"{number}", "event_message": "m", "project": "acme"}) for number in range(20)]
UNTIMED = "20 rows have no timestamp, and got the time of this load."
UNRECOGNISED = "20 rows have no id or no timestamp: loading the same lines again would count them twice."
NDJSON = b"\n".join(LINES) + b"\n"


@pytest.fixture
def source(logs: Connection[Any]) -> LogSource:
    return create_source(
        name="commanded_rows", holds="rows", project_location="row field", retention_days=MAX_RETENTION_DAYS
    )


def row_count(logs: Connection[Any]) -> int:
    (count,) = logs.execute("SELECT count(*) FROM logs.commanded_rows").fetchone() or (0,)
    return int(count)


def run(*arguments: object, source_name: str = "commanded_rows") -> tuple[str, str]:
    stdout, stderr = io.StringIO(), io.StringIO()
    call_command("load_logs", source_name, *map(str, arguments), stdout=stdout, stderr=stderr)
    return stdout.getvalue(), stderr.getvalue()


def put_on_stdin(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.mark.parametrize("content", [NDJSON, gzip.compress(NDJSON, mtime=0)], ids=["plain", "gzip"])
def test_loads_a_file_whatever_its_name(
    logs: Connection[Any], source: LogSource, tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "rows"
    file.write_bytes(content)
    stdout, stderr = run(file)
    assert stdout.startswith("commanded_rows: 20 rows loaded, 0 already there, 0 bad lines skipped; ")
    assert stderr == f"{UNTIMED}\n{UNRECOGNISED}\n"
    assert row_count(logs) == 20


@pytest.mark.parametrize("content", [NDJSON, gzip.compress(NDJSON, mtime=0)], ids=["plain", "gzip"])
def test_loads_standard_input(
    logs: Connection[Any], source: LogSource, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    put_on_stdin(monkeypatch, content)
    run("-")
    assert row_count(logs) == 20


def test_rows_without_id_or_timestamp_are_loaded_again_and_that_is_said(
    logs: Connection[Any], source: LogSource, tmp_path: Path
) -> None:
    file = tmp_path / "rows"
    whole = b'{"id": "%s", "event_message": "m", "project": "acme", "timestamp": "2025-06-02T08:00:00Z"}\n'
    file.write_bytes(b'{"event_message": "m", "project": "acme"}\n' + LINES[0] + b"\n" + whole % b"a" + whole % b"b")
    for rows in (4, 6):
        _, stderr = run(file)
        assert "2 rows have no id or no timestamp: loading the same lines again would count them twice" in stderr
        assert row_count(logs) == rows


def test_a_character_that_text_cannot_hold_is_replaced_and_said(
    logs: Connection[Any], source: LogSource, tmp_path: Path
) -> None:
    file = tmp_path / "rows"
    file.write_bytes(LINES[0] + b'\n{"event_message": "a\\u0000", "project": "acme", "metadata": {"b\\ud83d": 1}}')
    assert "1 row has U+FFFD in place of NUL or half a surrogate pair." in run(file)[1]
    rows = logs.execute("SELECT event_message, metadata FROM logs.commanded_rows WHERE event_message ^@ 'a'").fetchall()
    assert ("a\ufffd", [{"b\ufffd": 1}]) in rows


@pytest.mark.parametrize("name", ["@timestamp", "time", "ts", "date"])
def test_rows_with_a_time_of_another_name_are_timed(
    logs: Connection[Any], source: LogSource, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "rows"
    timed = {"id": "a", "event_message": "m", "project": "acme", name: "2025-06-02T08:00:00Z"}
    file.write_bytes(orjson.dumps(timed) + b"\n" + LINES[0])
    for _ in range(2):
        assert "1 row has no timestamp, and got the time of this load." in run(file)[1]
    rows = logs.execute("SELECT timestamp::text FROM logs.commanded_rows WHERE id = 'a'").fetchall()
    assert rows == [("2025-06-02 08:00:00+00",)]


def test_nothing_but_bad_lines_is_a_failure(logs: Connection[Any], source: LogSource, tmp_path: Path) -> None:
    file = tmp_path / "rows"
    file.write_bytes(b"no JSON\n\n[]\n")
    with pytest.raises(CommandError, match=r"Every line is bad\. Nothing was loaded into commanded_rows"):
        run(file, "--skip-bad-lines")


def test_ends_at_the_first_bad_line(logs: Connection[Any], source: LogSource, tmp_path: Path) -> None:
    file = tmp_path / "rows"
    file.write_bytes(NDJSON + b'{"event_message": "hunter2"}\n' + NDJSON)
    with pytest.raises(CommandError) as refused:
        run(file)
    assert str(refused.value) == "line 21: project is missing. Nothing was loaded into commanded_rows."
    assert refused.value.returncode == 1
    assert row_count(logs) == 0


def test_skips_bad_lines_when_told_to_and_lists_them(
    logs: Connection[Any], source: LogSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_stdin(monkeypatch, b'{"event_message": "hunter2"}\n' + NDJSON + b"hunter2\n" * 150)
    stdout, stderr = run("-", "--skip-bad-lines")
    lines = stderr.splitlines()
    assert lines[0] == "line 1: project is missing"
    assert lines[1] == "line 22: the line is not JSON: Expecting value (column 1)"
    assert lines[-3:] == ["… and 51 more bad lines", UNTIMED, UNRECOGNISED]
    assert len(lines) == 103
    assert "20 rows loaded, 0 already there, 151 bad lines skipped" in stdout
    assert "hunter2" not in stdout + stderr
    assert row_count(logs) == 20


def test_lines_older_than_a_source_without_retention_keeps_are_bad(
    logs: Connection[Any], source: LogSource, tmp_path: Path
) -> None:
    LogSource.objects.filter(name=source.name).update(retention_days=None)
    file = tmp_path / "rows"
    file.write_bytes(NDJSON + b'{"id": "old", "timestamp": "2020-01-01", "project": "acme", "event_message": "m"}\n')
    _, stderr = run(file, "--skip-bad-lines")
    assert stderr.startswith("line 21: timestamp is more than 400 days ago\n")
    assert row_count(logs) == 20


def test_says_how_many_rows_were_there_already(source: LogSource, monkeypatch: pytest.MonkeyPatch) -> None:
    line = b'{"id": "1", "timestamp": 1748852104, "event_message": "m", "project": "acme"}\n'
    put_on_stdin(monkeypatch, line * 3)
    assert "1 rows loaded, 2 already there" in run("-")[0]


def test_lists_the_log_sources_when_the_name_is_wrong(source: LogSource) -> None:
    with pytest.raises(CommandError, match=r"There is no log source 'nope'\. The log sources are: .*commanded_rows"):
        run("-", source_name="nope")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(NDJSON * 50, mtime=0)[:-12], "The gzip data is damaged or cut short"),
        (gzip.compress(NDJSON, mtime=0)[:12] + b"\xff" * 50, "The gzip data is damaged or cut short"),
        (b"\x1f\x8bnot gzip at all", "The gzip data is damaged or cut short"),
    ],
)
def test_damaged_gzip_data_loads_nothing(
    logs: Connection[Any], source: LogSource, tmp_path: Path, content: bytes, message: str
) -> None:
    file = tmp_path / "rows.gz"
    file.write_bytes(content)
    with pytest.raises(CommandError, match=message):
        run(file)
    assert row_count(logs) == 0


def test_a_file_that_cannot_be_read_is_one_line(source: LogSource, tmp_path: Path) -> None:
    for file in (tmp_path / "absent", tmp_path):
        with pytest.raises(CommandError, match=r"Nothing was loaded into commanded_rows\.$"):
            run(file)


def test_a_missing_table_is_one_line(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    LogSource.objects.create(name="tableless_rows", holds="rows", project_location="row field")
    put_on_stdin(monkeypatch, NDJSON)
    with pytest.raises(CommandError, match=r'The log database ended the load: relation "logs.tableless_rows" does not'):
        run("-", source_name="tableless_rows")


def test_a_source_that_finds_the_project_elsewhere_now_is_one_line(
    logs: Connection[Any], source: LogSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.execute("COMMENT ON COLUMN logs.commanded_rows.project IS 'tenant.ref'")
    put_on_stdin(monkeypatch, NDJSON)
    with pytest.raises(CommandError, match=r"was changed at this moment; load again\. Nothing was loaded"):
        run("-")
    assert row_count(logs) == 0


def test_an_interrupted_load_leaves_nothing_and_exits_with_130(
    logs: Connection[Any], source: LogSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    class InterruptedInput(io.RawIOBase):
        """Input during which somebody presses Ctrl-C."""

        parts = [NDJSON]

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            if not self.parts:
                raise KeyboardInterrupt
            part = self.parts.pop()
            buffer[: len(part)] = part
            return len(part)

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(InterruptedInput())))
    with pytest.raises(CommandError, match="Interrupted") as interrupted:
        run("-")
    assert interrupted.value.returncode == 130
    assert row_count(logs) == 0


def test_tells_how_far_it_is_in_plain_lines(source: LogSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "PROGRESS_EVERY_LINES", 10)
    monkeypatch.setattr(load_progress, "PLAIN_LINE_EVERY_SECONDS", 0)
    file = tmp_path / "rows"
    file.write_bytes(NDJSON)
    first, *_, last, _, _ = run(file)[1].splitlines()
    assert first.startswith("commanded_rows: 10 rows, ")
    assert last.startswith("commanded_rows: 20 rows, ")
    assert last.endswith(" rows/s, 100%, 0 s left")


def test_shows_a_bar_on_a_terminal(
    source: LogSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich draws although pytest has taken the terminal away
    monkeypatch.setattr(OutputWrapper, "isatty", lambda self: True)
    file = tmp_path / "rows"
    file.write_bytes(NDJSON)
    call_command("load_logs", "commanded_rows", str(file))
    drawn = capsys.readouterr()
    assert "20 rows" in drawn.err
    assert "rows/s" in drawn.err
    assert drawn.out.startswith("commanded_rows: 20 rows loaded")


@pytest.mark.parametrize("source_name", SOURCE_NAMES)
def test_the_sample_rows_load(log_database: Connection[Any], tmp_path: Path, source_name: str) -> None:
    made = generate_rows(source_name, count=4, until=now(), days=1, projects=["acme", "globex"], seed="sample")
    rows = list(map(orjson.loads, made))
    del rows[1]["id"]
    rows[2]["timestamp"] = round(datetime.fromisoformat(rows[2]["timestamp"]).timestamp() * 1000)
    del rows[3]["id"], rows[3]["timestamp"]
    file = tmp_path / "rows.ndjson"
    file.write_bytes(b"\n".join(map(orjson.dumps, rows)))
    stdout, _ = run(file, source_name=source_name)
    assert stdout.startswith(f"{source_name}: 4 rows loaded, 0 already there, 0 bad lines skipped")
    projects = log_database.execute(f"SELECT DISTINCT project FROM logs.{source_name}").fetchall()
    assert {project for (project,) in projects} <= {"acme", "globex"}
