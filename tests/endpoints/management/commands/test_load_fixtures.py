"""load_fixtures registers what is missing, leaves what is there, and tells what is broken on one line."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError, call_command

from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from logsources.models import LogSource
from logsources.services import drop_source

pytestmark = pytest.mark.django_db
SOURCES = {
    "edge_logs", "database_logs", "function_edge_logs", "function_logs", "auth_logs", "realtime_logs", "storage_logs",
    "rest_logs", "pooler_logs",
}  # fmt: skip


def run(folder: Path | None = None) -> list[str]:
    out = io.StringIO()
    call_command("load_fixtures", *([str(folder)] if folder else []), stdout=out)
    return out.getvalue().splitlines()


def failure(folder: Path) -> str:
    with pytest.raises(CommandError) as error:
        run(folder)
    assert "\n" not in str(error.value)
    assert error.value.returncode == 1
    return str(error.value)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one endpoint."""
    write(tmp_path / "endpoints.json", [{"name": "test.loaded", "sql_file": "query.sql"}])
    (tmp_path / "query.sql").write_text("SELECT 'é' AS a", encoding="utf-8")
    return tmp_path


def write(path: Path, document: Any) -> None:
    path.write_text(json.dumps(document), encoding="utf-8")


def test_without_redis_it_saves_and_says_so_in_words(
    folder: Path, settings: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    settings.REDIS_URL = "redis://:a-secret@127.0.0.1:1/0"
    settings.CACHES = {"default": settings.CACHES["default"] | {"LOCATION": settings.REDIS_URL}}
    error = io.StringIO()
    call_command("load_fixtures", str(folder), stdout=io.StringIO(), stderr=error)
    assert Endpoint.objects.filter(name="test.loaded").exists()
    (line,) = error.getvalue().splitlines()
    assert line.startswith("Redis does not answer. Everything is saved")
    assert "127.0.0.1:1" in line
    assert "a-secret" not in line
    # Nor does the log write over the words.
    assert capfd.readouterr().err == ""


def test_the_shipped_log_sources_and_endpoints_are_registered() -> None:
    assert set(LogSource.objects.values_list("name", flat=True)) >= SOURCES
    assert set(Endpoint.objects.values_list("name", flat=True)) == {"logs.all", "usage.api-counts"}


def test_the_shipped_settings_are_those_of_the_service_contract() -> None:
    fields = ("max_rows", "cache_seconds", "warm_every_seconds", "sandboxing", "redact_pii", "tenant_parameter")
    assert Endpoint.objects.values_list(*fields).get(name="logs.all") == (1000, 0, 0, True, False, "project")
    assert Endpoint.objects.values_list(*fields).get(name="usage.api-counts") == (1000, 900, 300, True, False, "")


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        (
            "logs.all",
            [
                ("project", ParameterType.TEXT, True, ()),
                ("iso_timestamp_start", ParameterType.TIMESTAMP, False, ()),
                ("iso_timestamp_end", ParameterType.TIMESTAMP, False, ()),
            ],
        ),
        (
            "usage.api-counts",
            [
                ("interval", ParameterType.TEXT, True, ("minutely", "hourly", "daily")),
                ("project", ParameterType.TEXT, True, ()),
            ],
        ),
    ],
)
def test_the_shipped_parameters_are_declared(name: str, parameters: list[tuple[Any, ...]]) -> None:
    declared = Endpoint.objects.get(name=name).parameters_of_version
    assert [(one.name, one.type, one.required, one.allowed_values) for one in declared] == parameters


def test_a_second_run_changes_nothing() -> None:
    before = list(Endpoint.objects.values()), list(LogSource.objects.values()), Endpoint.history.count()
    lines = run()
    assert all(line.endswith(": exists") for line in lines)
    assert len(lines) == len(SOURCES) + 2
    assert (list(Endpoint.objects.values()), list(LogSource.objects.values()), Endpoint.history.count()) == before


def test_an_operators_edits_survive() -> None:
    endpoint = Endpoint.objects.get(name="logs.all")
    endpoint.sql = "SELECT @mine AS mine"
    endpoint.tenant_parameter = endpoint.page_order = ""
    endpoint.sandboxing = False
    save_endpoint(endpoint, [DeclaredParameter("mine", required=True)])
    LogSource.objects.filter(name="edge_logs").update(retention_days=3)
    assert "endpoint logs.all: exists" in run()
    kept = Endpoint.objects.get(name="logs.all")
    assert (kept.sql, kept.version, [row.name for row in kept.parameters.all()]) == (
        "SELECT @mine AS mine",
        2,
        ["mine"],
    )
    assert LogSource.objects.get(name="edge_logs").retention_days == 3


def test_what_was_deleted_is_made_again() -> None:
    Endpoint.objects.get(name="logs.all").delete()
    lines = run()
    assert "endpoint logs.all: created as version 1" in lines
    assert "endpoint usage.api-counts: exists" in lines


def test_a_folder_of_ones_own(folder: Path, log_database: psycopg.Connection[Any]) -> None:
    reference = "0b1f7a3e-6f0c-4c57-9f3a-4f6f0a7d2a10"
    source = {"name": "test_loaded", "holds": "test rows", "project_location": "row field"}
    source |= {"uuid": reference, "default_project": "shop"}
    write(folder / "log_sources.json", [source])
    assert run(folder) == ["log source test_loaded: created", "endpoint test.loaded: created as version 1"]
    assert Endpoint.objects.get(name="test.loaded").sql == "SELECT 'é' AS a"
    created = LogSource.objects.get(name="test_loaded")
    assert (str(created.uuid), created.default_project) == (reference, "shop")
    drop_source(created)


ENTRY = {"name": "test.loaded", "sql_file": "query.sql"}
BROKEN = [
    ({"name": "x"}, "must be a list of objects"),
    (["x"], "must be a list of objects"),
    ([{"sql_file": "query.sql"}], "entry 1 (without a name): lacks 'name'."),
    ([{"name": "test.loaded"}], "entry 1 (test.loaded): lacks 'sql_file'."),
    ([{**ENTRY, "sql_file": "other.sql"}], "No such file or directory"),
    ([{**ENTRY, "max_row": 5}], "max_row"),
    ([{**ENTRY, "max_rows": 0}], "max_rows: Ensure this value is greater than or equal to 1."),
    ([{**ENTRY, "parameters": [{"name": "a", "type": "txt"}]}], "'txt' is not a valid ParameterType"),
    ([{**ENTRY, "parameters": [{"name": "a"}]}], "lacks 'type'."),
    ([{**ENTRY, "parameters": [{"name": "a", "type": "text", "kind": 1}]}], "kind"),
    ([{**ENTRY, "parameters": [{"name": "a", "type": "text"}]}], "parameters: @a: is declared but not used"),
]


@pytest.mark.parametrize(("document", "message"), BROKEN, ids=lambda value: str(value)[:60])
def test_a_broken_entry_is_one_line_with_its_place(folder: Path, document: Any, message: str) -> None:
    write(folder / "endpoints.json", document)
    told = failure(folder)
    assert message in told
    assert str(folder / "endpoints.json") in told
    assert not Endpoint.objects.filter(name="test.loaded").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [(b"[{", "line 1 column 3"), (b"", "line 1 column 1"), (b'["\xff"]', "can't decode byte 0xff")],
)
def test_a_broken_file_is_one_line(folder: Path, text: bytes, message: str) -> None:
    (folder / "endpoints.json").write_bytes(text)
    assert message in failure(folder)


def test_a_broken_query_is_told_with_line_and_column(folder: Path) -> None:
    (folder / "query.sql").write_text("SELECT 1 AS a,\n  nothing", encoding="utf-8")
    assert 'sql: Line 2, column 3: PostgreSQL: column "nothing" does not exist.' in failure(folder)


def test_a_broken_endpoints_file_leaves_the_sources_unmade(folder: Path) -> None:
    write(folder / "log_sources.json", [{"name": "test_loaded", "holds": "x", "project_location": "row field"}])
    write(folder / "endpoints.json", {})
    failure(folder)
    assert not LogSource.objects.filter(name="test_loaded").exists()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"name": "Bad Name", "holds": "x", "project_location": "row field"}, "name: A lower-case letter"),
        ({"name": "test_loaded"}, "create_source() missing 2 required keyword-only arguments: 'holds'"),
        ({"name": "test_loaded", "holds": "x", "project_location": "row field", "days": 1}, "'days'"),
    ],
)
def test_a_broken_log_source_is_one_line(tmp_path: Path, source: Any, message: str) -> None:
    write(tmp_path / "log_sources.json", [source])
    assert message in failure(tmp_path)


def test_a_folder_without_fixtures_is_told(tmp_path: Path) -> None:
    assert "contains no log_sources.json and no endpoints.json" in failure(tmp_path)
    assert "contains no" in failure(tmp_path / "no such folder")
