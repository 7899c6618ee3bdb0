"""export_endpoints, import_endpoints and sync_roles: what they print, and how they end."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command

from endpoints.models import Endpoint

pytestmark = pytest.mark.django_db
FILE = '/* endpoint\nname = "test.command"\n*/\nSELECT 1 AS one\n'


def run(*words: str, **options: bool) -> str:
    out = io.StringIO()
    call_command(*words, stdout=out, **options)
    return out.getvalue()


def test_exports_and_finds_nothing_to_import(tmp_path: Path) -> None:
    paths = run("export_endpoints", str(tmp_path)).splitlines()
    assert paths == [str(tmp_path / "logs.all.sql"), str(tmp_path / "usage.api-counts.sql")]
    assert run("import_endpoints", str(tmp_path)).splitlines() == [
        "logs.all.sql, endpoint logs.all: unchanged",
        "usage.api-counts.sql, endpoint usage.api-counts: unchanged",
    ]


def test_a_dry_run_shows_the_difference_and_saves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text(FILE)
    run("import_endpoints", str(tmp_path))
    (tmp_path / "a.sql").write_text(FILE.replace("1 AS one", "2 AS one"))
    shown = run("import_endpoints", str(tmp_path), "--dry-run").splitlines()
    assert shown[:3] == ["a.sql, endpoint test.command: would be changed", "--- stored/test.command", "+++ a.sql"]
    assert {"-SELECT 1 AS one", "+SELECT 2 AS one"} <= set(shown)
    assert Endpoint.objects.get(name="test.command").version == 1


def test_imports(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text(FILE)
    assert run("import_endpoints", str(tmp_path)) == "a.sql, endpoint test.command: created as version 1\n"
    assert Endpoint.objects.get(name="test.command").sql == "SELECT 1 AS one"


@pytest.mark.parametrize(("force", "coloured"), [(True, True), (False, False)])
def test_colours_are_for_terminals(tmp_path: Path, force: bool, coloured: bool) -> None:
    (tmp_path / "a.sql").write_text(FILE)
    shown = run("import_endpoints", str(tmp_path), "--dry-run", force_color=force)
    assert ("\x1b[" in shown) is coloured


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_refused_file_ends_it_with_an_error_and_the_reasons(tmp_path: Path, dry_run: bool) -> None:
    (tmp_path / "a.sql").write_text(FILE)
    (tmp_path / "b.sql").write_text(FILE.replace("name", "nam"))
    out = io.StringIO()
    with pytest.raises(CommandError, match="a file is refused") as caught:
        call_command("import_endpoints", str(tmp_path), dry_run=dry_run, stdout=out)
    assert caught.value.returncode == 1
    lines = out.getvalue().splitlines()
    assert lines[0] == f"a.sql, endpoint test.command: {'would be created' if dry_run else 'not imported'}"
    assert lines[lines.index("b.sql: refused") :] == [
        "b.sql: refused",
        "  the header lacks `name`",
        "  there is no setting `nam`; did you mean `name`?",
    ]
    assert not Endpoint.objects.filter(name="test.command").exists()


@pytest.mark.parametrize(
    ("folder", "reason"), [("", "contains no .sql file"), ("missing", "No such file or directory")]
)
def test_a_folder_without_files_is_an_error(tmp_path: Path, folder: str, reason: str) -> None:
    with pytest.raises(CommandError, match=reason):
        run("import_endpoints", str(tmp_path / folder))


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CommandError, match="file"):
        run("export_endpoints", str(tmp_path / "file"))


def test_roles_are_told_when_they_change() -> None:
    Group.objects.get(name="owner").delete()
    assert run("sync_roles") == "role owner: created\n"
    assert run("sync_roles") == "The roles have the right permissions.\n"
