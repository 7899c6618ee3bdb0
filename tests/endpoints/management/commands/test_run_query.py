"""run_query prints what the endpoint answers, readable in a terminal, and tells failures on one line."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from endpoints.defining.saving import save_endpoint
from endpoints.log_database import servers
from endpoints.log_database.gate import GatePool
from endpoints.log_database.servers import LogServers
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from tests.endpoints.conftest import age_results

pytestmark = pytest.mark.django_db
MOMENT = datetime(2025, 6, 2, 8, 15, 2, 120000, tzinfo=UTC)
MESSAGE = "GET /rest/v1/countries?select=name 200 from 203.0.113.7 in 12 ms"


def run(*arguments: str) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    call_command("run_query", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def failure(*arguments: str) -> CommandError:
    with pytest.raises(CommandError) as error:
        run(*arguments)
    assert "\n" not in str(error.value)
    return error.value


@pytest.fixture
def rows(insert_rows: Callable[..., None]) -> None:
    """Three gateway rows of acme with a long metadata."""
    metadata = [{"request": {"path": "/rest/v1/countries", "headers": [{"user_agent": "x" * 400}]}}]
    insert_rows(
        "edge_logs",
        [
            {"timestamp": MOMENT, "project": "acme", "event_message": MESSAGE, "metadata": metadata, "id": f"id-{n}"}
            for n in range(3)
        ],
    )


@pytest.fixture
def typed(db: None) -> None:
    save_endpoint(
        Endpoint(name="test.typed", sql="SELECT @level AS level, @tags AS tags, @word AS word"),
        [
            DeclaredParameter("level", type=ParameterType.INTEGER, required=True, minimum="1"),
            DeclaredParameter("tags", type=ParameterType.TEXT_LIST, allowed_values=("a", "b")),
            DeclaredParameter("word"),
        ],
    )


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_a_table_fits_the_terminal_and_shows_every_row(rows: None, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    out, err = run("logs.all", "project=acme")
    lines = out.splitlines()
    assert max(map(len, lines)) <= width
    for expected in ("id-0", "id-1", "id-2", "2025-06-02T08:15:02.12", "GET /rest/v1", "…"):
        assert expected in out
    assert err.startswith("3 rows, in 0.")


def test_a_wide_terminal_gets_one_line_a_row(rows: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    lines = run("logs.all", "project=acme")[0].splitlines()
    assert len(lines) == 2 + 3
    assert lines[0].split() == ["id", "timestamp", "event_message", "metadata"]
    assert set(lines[1]) == {"─", " "}
    assert all(MESSAGE in line and line.endswith("…") for line in lines[2:])


def test_the_table_is_the_default() -> None:
    assert run("logs.all", "project=acme")[0] == run("logs.all", "project=acme", "--format", "table")[0]


def test_no_rows_are_a_header_and_a_count() -> None:
    out, err = run("logs.all", "project=nobody")
    assert out.split()[:4] == ["id", "timestamp", "event_message", "metadata"]
    assert err.startswith("0 rows, in ")


def test_a_log_row_cannot_steer_the_terminal(db: None) -> None:
    save_endpoint(Endpoint(name="test.hostile", sql=r"SELECT E'a\x1b[2Jb\nc\u009b\u202ed' AS a, 'é🦊' AS b"), [])
    out, _ = run("test.hostile")
    assert r"a\x1b[2Jb\nc\x9b\u202ed" in out
    assert "é🦊" in out
    assert not any(character in out for character in "\x1b\x9b\u202e")


def test_a_value_of_megabytes_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    save_endpoint(Endpoint(name="test.large", sql="SELECT repeat('x', 3000000) AS a"), [])
    assert max(map(len, run("test.large")[0].splitlines())) == 80


def test_json_is_the_body_of_the_api(rows: None) -> None:
    out, err = run("logs.all", "project=acme", "--format", "json")
    assert [row["id"] for row in json.loads(out)["result"]] == ["id-2", "id-1", "id-0"]
    assert "rows" in err


def test_ndjson_is_one_object_a_line(rows: None) -> None:
    out, _ = run("logs.all", "project=acme", "--format", "ndjson")
    assert [json.loads(line)["event_message"] for line in out.splitlines()] == [MESSAGE] * 3
    assert out.endswith("}\n")


def test_csv_has_a_header_and_whole_values(rows: None) -> None:
    out, _ = run("logs.all", "project=acme", "--format", "csv")
    header, *values = csv.reader(io.StringIO(out, newline=""))
    assert header == ["id", "timestamp", "event_message", "metadata"]
    assert [len(value[3]) > 400 for value in values] == [True] * 3


def test_redaction_is_asked_for(rows: None) -> None:
    assert "203.0.113.7" in run("logs.all", "project=acme", "--format", "csv")[0]
    redacted = run("logs.all", "project=acme", "--format", "csv", "--redact")[0]
    assert "203.0.113.7" not in redacted
    assert "REDACTED" in redacted


def test_a_cut_result_says_so(db: None) -> None:
    save_endpoint(Endpoint(name="test.many", sql="SELECT generate_series(1, 9) AS a", max_rows=1), [])
    assert run("test.many")[1].startswith("1 row, cut at max rows, in ")
    save_endpoint(Endpoint(name="test.limited", sql="SELECT generate_series(1, 9) AS a LIMIT 2"), [])
    assert run("test.limited")[1].startswith("2 rows, stopped by its own LIMIT, in ")


def test_a_list_repeats_its_name(typed: None) -> None:
    out, _ = run("test.typed", "level=5", "tags=a", "tags=b", "--format", "json")
    assert json.loads(out)["result"] == [{"level": 5, "tags": ["a", "b"], "word": None}]


def test_a_value_may_hold_an_equals_sign(typed: None) -> None:
    out, _ = run("test.typed", "level=5", "word=a=b", "--format", "json")
    assert json.loads(out)["result"][0]["word"] == "a=b"


FAILURES = [
    (["no.such.endpoint"], "endpoint_not_found: "),
    (["test.typed"], "level is required"),
    (["test.typed", "level=0", "tags=c"], "level is below the minimum (minimum: 1); tags is not one of the allowed"),
    (["test.typed", "level=0", "tags=c"], "(allowed values: a, b)"),
    (["test.typed", "level=1", "level=2"], "invalid_request: "),
    (["test.typed", "level=1", "level=2"], "level is sent more than once"),
    (["usage.api-counts", "interval=daily", "project=("], "project is not a valid regular expression"),
]


@pytest.mark.parametrize(("arguments", "message"), FAILURES)
def test_a_failure_is_one_line_with_all_details(typed: None, arguments: list[str], message: str) -> None:
    error = failure(*arguments)
    assert message in str(error)
    assert error.returncode == 1


def test_an_unknown_endpoint_is_told_without_speaking_of_access_tokens() -> None:
    assert str(failure("nope")) == (
        "endpoint_not_found: There is no such endpoint. The endpoints are: logs.all, usage.api-counts."
    )
    Endpoint.objects.all().delete()
    assert str(failure("nope")).endswith("There is none yet: load_fixtures makes those that ship.")


@pytest.mark.parametrize(
    ("option", "query", "message"),
    [
        (
            "--sql",
            "selct",
            "sandbox_violation: Line 1, column 1: `selct` cannot begin a sandbox query; begin with SELECT or WITH."
            " (tables: edge_logs, database_logs, function_edge_logs, function_logs, auth_logs, realtime_logs,"
            " storage_logs, rest_logs, pooler_logs)",
        ),
        (
            "--sql",
            "select nope from edge_logs",
            "invalid_sql: Line 1, column 8: There is no column `nope` here.",
        ),
        (
            "--lql",
            "x:(",
            "invalid_lql: Line 1, column 3: the parenthesis is never closed. Expected a closing `)`.",
        ),
    ],
)
def test_an_error_of_ones_own_query_is_said_once(
    option: str, query: str, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert str(failure("logs.all", "project=acme", option, query)) == message
    assert "sandbox_query_failed" not in capfd.readouterr().err  # the log line of callers' queries


def test_missing_arguments_are_listed_and_nothing_else() -> None:
    assert str(failure("logs.all")) == "invalid_parameters: project is required"


def test_an_argument_that_is_ignored_is_named(rows: None) -> None:
    out, err = run("logs.all", "project=acme", "porject=acme", "page_size=2", "--format", "csv")
    assert out.count("\n") == 3
    assert "Ignored: porject. The parameters are: iso_timestamp_end, iso_timestamp_start, project.\n" in err
    assert "Ignored" not in run("logs.all", "project=acme")[1]


@pytest.mark.parametrize("argument", ["acme", "=acme", ""])
def test_an_argument_without_a_name_is_a_usage_error(argument: str) -> None:
    error = failure("logs.all", argument)
    assert "An argument must be NAME=VALUE" in str(error)
    assert error.returncode == 2


def test_the_operator_is_told_why_the_stored_query_failed() -> None:
    save_endpoint(Endpoint(name="test.fails", sql="SELECT 1 / length(coalesce(@a, '')) AS a"), [])
    assert str(failure("test.fails")) == "stored_query_failed: PostgreSQL says 22012 division by zero"


def test_an_unreachable_log_database_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = GatePool({**settings.LOGS_GATE, "host": "127.0.0.1", "port": "1"}, size=2, wait_seconds=0.2)
    monkeypatch.setattr(servers, "_servers", LogServers([nowhere]))
    try:
        assert str(failure("logs.all", "project=acme")).startswith("database_unavailable: ")
    finally:
        nowhere.close()


def test_a_stale_result_is_told_as_one(no_log_database: Callable[[], None]) -> None:
    endpoint = save_endpoint(Endpoint(name="test.old", sql="SELECT 7 AS n", cache_seconds=60), [])
    assert "stale" not in run("test.old")[1]
    age_results(endpoint, seconds=97)
    no_log_database()
    out, err = run("test.old", "--format", "csv")
    assert out == "n\r\n7\r\n"
    assert re.match(r"1 row, stale: (9[7-9]|1\d\d) s old, in ", err), err


def in_a_process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(settings.BASE_DIR / "manage.py"), "run_query", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["logs.all", "acme"], 2, "CommandError: An argument must be NAME=VALUE"),
        (["logs.all", "--format", "xml"], 2, "manage.py run_query: error: argument --format: invalid choice: 'xml'"),
        (["logs.all"], 1, "CommandError: Django's database cannot be used: connection"),
    ],
)
def test_exit_codes_and_last_lines_of_failures(arguments: list[str], code: int, line: str) -> None:
    nowhere = "postgresql://nobody@127.0.0.1:1/none"
    finished = in_a_process(*arguments, DATABASE_URL=nowhere)
    assert finished.returncode == code, finished.stderr
    assert finished.stderr.splitlines()[-1].startswith(line)
    assert "Traceback" not in finished.stderr
    assert finished.stdout == ""


def test_a_reader_that_has_read_enough_ends_the_command_quietly() -> None:
    program = (
        "import django, sys; django.setup()\n"
        "from django.core.management.base import OutputWrapper\n"
        "from endpoints.management.commands import run_query\n"
        "run_query._write(OutputWrapper(sys.stdout), 'x' * 1_000_000)"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=settings.BASE_DIR,
        # Unbuffered, Python does not notice that only a part was written.
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings", "PYTHONUNBUFFERED": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert writer.stdout is not None
    assert writer.stderr is not None
    with writer.stderr:
        assert writer.stdout.read(1) == b"x"
        writer.stdout.close()
        assert writer.stderr.read() == b""
    assert writer.wait(timeout=30) == 141


def test_runs_a_query_of_ones_own_under_the_sandboxs_rules(rows: None) -> None:
    out, err = run("logs.all", "project=acme", "--format", "csv", "--sql", "select count(*) as n from edge_logs")
    assert out == "n\r\n3\r\n"
    assert err.startswith("1 row, in ")
    refused = failure("logs.all", "project=acme", "--sql", "select rolname from pg_authid")
    assert str(refused).startswith("sandbox_violation: Line 1, column 21: `pg_authid`")


def test_an_empty_query_of_ones_own_is_none(rows: None) -> None:
    out, _ = run("logs.all", "project=acme", "--format", "csv", "--sql", " ")
    assert out.startswith("id,timestamp,event_message,metadata")


# --- Parquet and Arrow ------------------------------------------------------------------------------------------------
class BinaryOutput(io.TextIOWrapper):
    """Standard output with its bytes, as a file or as a terminal."""

    def __init__(self, *, is_terminal: bool = False) -> None:
        self.bytes = io.BytesIO()
        self.is_terminal = is_terminal
        super().__init__(self.bytes, encoding="ascii")

    def isatty(self) -> bool:
        return self.is_terminal


def run_binary(*arguments: str, is_terminal: bool = False) -> tuple[bytes, str]:
    out, err = BinaryOutput(is_terminal=is_terminal), io.StringIO()
    call_command("run_query", *arguments, stdout=out, stderr=err)
    return out.bytes.getvalue(), err.getvalue()


def test_parquet_and_arrow_are_the_bytes_of_the_api(rows: None) -> None:
    body, err = run_binary("logs.all", "project=acme", "--format", "parquet")
    assert err.startswith("3 rows, in ")
    table = pq.read_table(io.BytesIO(body))
    assert table["id"].to_pylist() == ["id-2", "id-1", "id-0"]
    assert table["timestamp"].to_pylist() == [MOMENT] * 3
    body, _ = run_binary("logs.all", "project=acme", "--format", "arrow", "--sql", "select count(*) from edge_logs")
    assert pa.ipc.open_stream(body).read_all().to_pylist() == [{"count": 3}]


def test_parquet_is_redacted_when_asked_for(rows: None) -> None:
    assert b"203.0.113.7" in run_binary("logs.all", "project=acme", "--format", "parquet")[0]
    redacted, _ = run_binary("logs.all", "project=acme", "--format", "parquet", "--redact")
    assert b"203.0.113.7" not in redacted
    assert b"REDACTED" in redacted


@pytest.mark.parametrize("name", ["parquet", "arrow"])
def test_a_terminal_gets_no_binary_format(name: str) -> None:
    with pytest.raises(CommandError) as error:
        run_binary("logs.all", "project=acme", "--format", name, is_terminal=True)
    expected = f"--format {name} is binary, not for a terminal. Write it to a file: --format {name} > rows.{name}."
    assert (str(error.value), error.value.returncode) == (expected, 2)


@pytest.mark.parametrize("name", ["parquet", "arrow"])
def test_without_the_extra_the_command_names_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as if it were not installed
    with pytest.raises(CommandError) as error:
        run_binary("logs.all", "project=acme", "--format", name)
    assert f"--format {name} needs pyarrow, which is not installed here" in str(error.value)
    assert "requirements.lock" in str(error.value)
    assert error.value.returncode == 2


def test_bytes_go_through_a_pipe_as_they_are() -> None:
    program = (
        "import django, sys; django.setup()\n"
        "from django.core.management.base import OutputWrapper\n"
        "from endpoints.management.commands import run_query\n"
        "run_query._write(OutputWrapper(sys.stdout), b'\\r\\n\\x00\\xff' * 100_000)"
    )
    for unbuffered in ("", "1"):
        finished = subprocess.run(
            [sys.executable, "-c", program],
            cwd=settings.BASE_DIR,
            env={**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings", "PYTHONUNBUFFERED": unbuffered},
            capture_output=True,
            check=True,
            timeout=60,
        )
        assert finished.stdout == b"\r\n\x00\xff" * 100_000
