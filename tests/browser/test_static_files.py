"""Pages on collected static files, as in production: they load under hashed names, and work."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.editing import type_sql
from tests.browser.site import Site
from tests.files import PROJECT

HASHED = re.compile(r"\.[0-9a-f]{12}\.\w+$")
# Ace looks for the parts of its editor beside itself, under plain names.
PLAIN = "/static/django_ace/ace/"
COLLECT = ["manage.py", "collectstatic", "--noinput", "--verbosity", "0"]


@pytest.fixture(scope="module")
def collected(site: Site) -> Iterator[Site]:
    """The installation as one more web server sends it, whose static files are collected."""
    folder = tempfile.mkdtemp(prefix="endpoints-static-")
    try:
        environment = {**site.installation.environment, "STATIC_ROOT": folder}
        subprocess.run([sys.executable, *COLLECT], cwd=PROJECT, env=environment, check=True, timeout=300)
        with site.installation.another_web(STATIC_ROOT=folder) as (_, port), pytest.MonkeyPatch.context() as patch:
            patch.setattr(site, "url", f"http://127.0.0.1:{port}")
            yield site
    finally:
        shutil.rmtree(folder)


def loaded_files(page: Page) -> list[str]:
    """Return the paths of the static files that the page has loaded, in order."""
    names = page.evaluate("() => performance.getEntriesByType('resource').map((entry) => entry.name)")
    return [path for path in (urlsplit(name).path for name in names) if path.startswith("/static/")]


@pytest.mark.usefixtures("collected")
def test_the_editor_checks_a_query(open_page: OpenPage) -> None:
    page = open_page("/admin/endpoints/endpoint/add/")
    type_sql(page, "select 1 as one")
    expect(page.locator("#wb-problems")).to_have_attribute("aria-busy", "false")
    expect(page.locator("#wb-check-status")).not_to_be_empty()
    check_names(page, module="/static/endpoints/workbench/editor.")


@pytest.mark.usefixtures("collected")
def test_the_log_explorer_finds_rows(open_page: OpenPage) -> None:
    page = open_page("/admin/logs/")
    expect(page.locator("#lx-status")).not_to_be_empty()
    check_names(page, module="/static/endpoints/explorer/search.")


@pytest.mark.usefixtures("collected")
def test_the_dashboard_loads(open_page: OpenPage) -> None:
    page = open_page("/admin/")
    expect(page.get_by_role("region", name="Health")).to_be_visible()
    check_names(page, module="/static/endpoints/theme.")


def check_names(page: Page, *, module: str) -> None:
    """Every file has a hashed name, and none of our modules was loaded twice."""
    page.wait_for_load_state("networkidle")
    paths = loaded_files(page)
    assert [path for path in paths if path.startswith(module)]
    assert [path for path in paths if not HASHED.search(path) and not path.startswith(PLAIN)] == []
    ours = [path for path in paths if path.startswith("/static/endpoints/") and path.endswith(".js")]
    assert sorted(ours) == sorted(set(ours))
