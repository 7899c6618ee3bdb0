"""Static files under names with a hash: found by pages and by each other, compressed, kept for years by browsers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import staticfiles_storage
from django.core.management import call_command
from django.test import Client, override_settings
from whitenoise.middleware import WhiteNoiseMiddleware

from config.static_files import CollectedFiles

OTHERS = ("admin", "django_ace", "drf_spectacular_sidecar", "rest_framework", "unfold")
HASHED = re.compile(r"\.[0-9a-f]{12}\.\w+$")
# Every form of import and re-export that names a file, also over several lines; comments here hold no quotes with dots.
IMPORT = re.compile(r"""\b(?:from|import)\s*\(?\s*["'](\.[^"']+)["']""")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our own files, collected; those of others take ten times as long."""
    folder = tmp_path_factory.mktemp("static")
    with override_settings(STATIC_ROOT=str(folder)):
        call_command("collectstatic", interactive=False, verbosity=0, ignore_patterns=list(OTHERS))
    return folder


@pytest.fixture
def collected(folder: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> CollectedFiles:
    """The storage of a web process that starts after the files were collected."""
    settings.STATIC_ROOT = str(folder)  # Django makes the storage anew, now and when the test is over
    settings.WHITENOISE_AUTOREFRESH = False
    # Only what was collected: looking through everything of others is what a test client is spared elsewhere.
    monkeypatch.setattr(WhiteNoiseMiddleware, "add_files_from_finders", lambda self: None)
    storage: CollectedFiles = staticfiles_storage
    return storage


def get(path: str) -> Any:
    response = Client().get(path, headers={"Accept-Encoding": "gzip"})
    response.close()  # the file
    return response


def modules() -> list[str]:
    root = Path(str(finders.find("endpoints")))
    return sorted(f"endpoints/{path.relative_to(root)}" for path in root.rglob("*.js"))


@pytest.mark.parametrize("name", modules())
def test_a_module_imports_others_by_hashed_names(folder: Path, name: str) -> None:
    storage = CollectedFiles(location=str(folder))
    original = Path(str(finders.find(name))).read_text(encoding="utf-8")
    hashed = folder / storage.stored_name(name)
    imported = IMPORT.findall(hashed.read_text(encoding="utf-8"))
    assert len(imported) == len(IMPORT.findall(original))
    assert [target for target in imported if not HASHED.search(target)] == []
    assert [target for target in imported if not (hashed.parent / target).exists()] == []


def test_a_page_names_a_collected_file_by_its_hash(collected: CollectedFiles) -> None:
    address = collected.url("endpoints/theme.css")
    assert re.fullmatch(r"/static/endpoints/theme\.[0-9a-f]{12}\.css", address)


@pytest.mark.django_db
def test_a_hashed_name_is_sent_compressed_and_kept_for_years(collected: CollectedFiles) -> None:
    response = get(collected.url("endpoints/workbench/main.js"))
    assert response.status_code == 200
    assert response["Content-Encoding"] == "gzip"
    assert "Accept-Encoding" in response["Vary"]
    assert "javascript" in response["Content-Type"]
    found = re.fullmatch(r"max-age=(\d+), public, immutable", response["Cache-Control"])
    assert found is not None
    assert int(found[1]) >= 31_536_000


@pytest.mark.django_db
def test_a_plain_name_is_asked_for_again(collected: CollectedFiles) -> None:
    response = get("/static/endpoints/theme.css")
    assert response.status_code == 200
    assert "immutable" not in response["Cache-Control"]


@pytest.mark.parametrize("name", ["endpoints/not-collected-yet.js", "unfold/css/styles.css"])
def test_a_file_that_was_not_collected_keeps_its_name(collected: CollectedFiles, name: str) -> None:
    assert collected.url(name) == f"/static/{name}"


def test_without_collecting_every_file_keeps_its_name(tmp_path: Path) -> None:
    assert CollectedFiles(location=str(tmp_path)).url("endpoints/theme.css") == "/static/endpoints/theme.css"


@pytest.mark.django_db
def test_no_name_leads_out_of_the_folder(collected: CollectedFiles) -> None:
    for path in ("/static/../manage.py", "/static/endpoints/%2e%2e/%2e%2e/%2e%2e/manage.py", "/static//etc/passwd"):
        assert get(path).status_code == 404
