"""Endpoints as files: what is exported imports as unchanged; a folder is imported as a whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.exceptions import ValidationError

from endpoints.calling.calls import run_endpoint
from endpoints.calling.query_requests import Call
from endpoints.defining import transfers
from endpoints.defining.endpoint_files import write_endpoint_file
from endpoints.defining.saving import save_endpoint
from endpoints.defining.transfers import (
    ImportOutcome,
    ImportResult,
    export_endpoints,
    import_endpoint_files,
    import_endpoints,
)
from endpoints.defining.upkeep import delete_endpoints
from endpoints.definition import Definition
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType

pytestmark = pytest.mark.django_db
LEVEL = DeclaredParameter("level", type=ParameterType.INTEGER, default="5", description="How bad.")


def content(name: str = "test.imported", **fields: object) -> bytes:
    values = {"sql": "SELECT @level AS level", "parameters": (LEVEL,), **fields}
    return write_endpoint_file(Definition(name=name, **values)).encode()  # type: ignore[arg-type]


def line_of(text: bytes, place: str) -> int:
    """Return the number of the line of a file where this stands first: a new setting moves it."""
    return text.decode().partition(place)[0].count("\n") + 1


def import_one(text: bytes) -> ImportResult:
    (result,) = import_endpoint_files({"one.sql": text}, dry_run=False)
    return result


def versions() -> dict[str, int]:
    return dict(Endpoint.objects.values_list("name", "version"))


def test_what_was_exported_is_unchanged(tmp_path: Path) -> None:
    paths = export_endpoints(tmp_path / "new" / "folder")
    assert [path.name for path in paths] == ["logs.all.sql", "usage.api-counts.sql"]
    before = versions()
    results = import_endpoints(tmp_path / "new" / "folder", dry_run=False)
    assert [(one.outcome, one.version, one.difference) for one in results] == [(ImportOutcome.UNCHANGED, None, ())] * 2
    assert versions() == before


def test_an_exported_endpoint_comes_back_as_it_was(tmp_path: Path) -> None:
    endpoint = Endpoint.objects.get(name="usage.api-counts")
    counts = {name: getattr(endpoint, name) for name in ("description", "sql", "cache_seconds", "declared_parameters")}
    warm, columns, tables = endpoint.warm_every_seconds, endpoint.result_columns, endpoint.sandbox_tables
    export_endpoints(tmp_path)
    delete_endpoints([endpoint])
    kept, made = import_endpoints(tmp_path, dry_run=False)
    assert (kept.outcome, made.outcome, made.version) == (ImportOutcome.UNCHANGED, ImportOutcome.CREATED, 1)
    back = Endpoint.objects.get(name="usage.api-counts")
    assert {name: getattr(back, name).strip() if name == "sql" else getattr(back, name) for name in counts} == {
        **counts,
        "sql": counts["sql"].strip(),
    }
    assert (back.warm_every_seconds, back.result_columns, back.sandbox_tables) == (warm, columns, tables)


def test_a_new_endpoint_can_be_called_and_its_history_tells_where_it_is_from() -> None:
    result = import_one(content())
    assert (result.name, result.outcome, result.version) == ("test.imported", ImportOutcome.CREATED, 1)
    assert run_endpoint("test.imported", call=Call({})).outcome.body == b'{"result":[{"level":5}]}'
    assert Endpoint.history.get(name="test.imported").history_change_reason == "imported from a file"


def test_a_changed_file_is_a_new_version_of_the_same_endpoint() -> None:
    import_one(content())
    key = Endpoint.objects.get(name="test.imported").pk
    result = import_one(content(sql="SELECT @level + 1 AS level", max_rows=7))
    assert (result.outcome, result.version) == (ImportOutcome.CHANGED, 2)
    assert "-SELECT @level AS level" in result.difference
    assert "+SELECT @level + 1 AS level" in result.difference
    assert {"-max_rows = 1000", "+max_rows = 7"} <= set(result.difference)
    saved = Endpoint.objects.get(name="test.imported")
    assert (saved.pk, saved.version, saved.max_rows) == (key, 2, 7)


def test_line_ends_of_the_browser_are_no_change() -> None:
    save_endpoint(Endpoint(name="test.imported", sql="SELECT 1\r\nAS one", description="a\r\nb"), [])
    text = content(sql="SELECT 1\nAS one", description="a\nb", parameters=())
    assert import_one(text).outcome is ImportOutcome.UNCHANGED


def test_a_dry_run_tells_the_same_and_saves_nothing() -> None:
    before = versions()
    (result,) = import_endpoint_files({"one.sql": content()}, dry_run=True)
    assert (result.outcome, result.version) == (ImportOutcome.CREATED, None)
    assert '+name = "test.imported"' in result.difference
    assert versions() == before


X60 = "x" * 60
# A file, the line at which the fault is, if it is told, and the reason.
REFUSED = [
    (b"SELECT 1", "SELECT 1", ": the file of an endpoint must begin with the line `/* endpoint`"),
    (
        content(sql="SELECT 1 AS one,\n  nothing AS a", parameters=()),
        "  nothing AS a",
        ', column 3: PostgreSQL: column "nothing" does not exist',
    ),
    (content(sql="SELECT 'a", parameters=()), "SELECT 'a", ", column 8: "),
    (content(sql="SELECT 1 AS a"), "", "@level: is declared but not used in the SQL"),
    (content(name="has space"), "", "name: A name must start with a letter"),
    (content(max_rows=0), "", "max_rows: Ensure this value is greater than or equal to 1."),
    (content(warm_every_seconds=5), "", "warm_every_seconds: Warming fills the cache"),
    (
        content(tenant_parameter="level"),
        "",
        "tenant_parameter: The tenant parameter must be declared as required",
    ),
    (
        content(parameters=(LEVEL, DeclaredParameter(X60)), sql=f"SELECT @level AS a, @{X60} AS b"),
        "",
        f"@{X60}: name: A parameter name must start",
    ),
]


def test_a_file_that_is_no_text_is_refused_at_the_line_that_is_none() -> None:
    (reason,) = import_one(b"/* endpoint\nname = '\xff'\n*/\nSELECT 1").reasons
    assert reason == "line 2: the file is not UTF-8: invalid start byte"


@pytest.mark.parametrize(("text", "place", "reason"), REFUSED)
def test_a_faulty_file_is_refused_and_nothing_else_is_imported(text: bytes, place: str, reason: str) -> None:
    before = versions()
    good, bad = import_endpoint_files({"a.sql": content(name="test.good"), "b.sql": text}, dry_run=False)
    assert (good.outcome, good.version) == (ImportOutcome.CREATED, None)
    assert (bad.outcome, bad.difference) == (ImportOutcome.REFUSED, ())
    assert bad.reasons[0].startswith(f"line {line_of(text, place)}{reason}" if place else reason)
    assert versions() == before


def test_every_fault_of_a_file_is_told_once() -> None:
    text = content(name="has space", max_rows=0, sql="\n\nSELECT nothing", parameters=())
    assert [reason.partition(":")[0] for reason in import_one(text).reasons] == [
        "name", "max_rows", f"line {line_of(text, 'SELECT')}, column 8"
    ]  # fmt: skip


def test_a_place_in_the_sql_is_its_place_in_the_file() -> None:
    """Blank space between header and SQL is the file's own."""
    text = b"/* endpoint\nname = 'test.imported'\n*/\n\n\n\n  SELECT 1 AS one\nFROM nowhere\n"
    (reason,) = import_one(text).reasons
    assert reason.startswith("line 8, column 6: PostgreSQL: relation")
    (reason,) = import_one(text.replace(b"1 AS one\nFROM nowhere", b"nothing")).reasons
    assert reason.startswith("line 7, column 10: PostgreSQL: column")


def test_two_files_of_one_endpoint_are_refused() -> None:
    results = import_endpoint_files({"a.sql": content(), "b.sql": content(max_rows=5)}, dry_run=False)
    assert {result.outcome for result in results} == {ImportOutcome.REFUSED}
    assert "another file also names the endpoint test.imported" in results[0].reasons[0]
    assert "test.imported" not in versions()


def test_a_refusal_while_saving_undoes_the_files_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before = versions()

    def name_is_taken_in_between(endpoint: Endpoint, *args: object) -> Endpoint:
        if endpoint.name == "test.second":
            raise ValidationError({"name": "taken"})
        return save_endpoint(endpoint, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(transfers, "save_endpoint", name_is_taken_in_between)
    contents = {"a.sql": content(name="test.first"), "b.sql": content(name="test.second")}
    first, second = import_endpoint_files(contents, dry_run=False)
    assert (first.outcome, first.version) == (ImportOutcome.CREATED, None)
    assert (second.outcome, second.reasons) == (ImportOutcome.REFUSED, ("name: taken",))
    assert versions() == before


def test_only_sql_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "one.sql").write_bytes(content())
    (tmp_path / "README.md").write_text("about these")
    assert [result.file for result in import_endpoints(tmp_path, dry_run=True)] == ["one.sql"]
