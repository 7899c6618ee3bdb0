"""Endpoints as files: exported, changed in an editor, seen before they are saved, and refused with a line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import FilePayload, Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.pictures import take_pictures
from tests.browser.site import Site

LIST = "/admin/endpoints/endpoint/"
SQL = "SELECT @project AS project,\n  1 AS one"
CheckAccessibility = Callable[[Page], None]


def save(site: Site, name: str) -> None:
    site.console.do("save", name=name, parameters={"project": "text"}, settings={"sql": SQL})


def file(name: str, text: str) -> FilePayload:
    return {"name": name, "mimeType": "application/sql", "buffer": text.encode()}


def upload(page: Page, *files: FilePayload) -> None:
    page.get_by_label("files", exact=False).set_input_files(list(files))
    page.get_by_role("button", name="Preview the changes").click()


def exported(page: Page, name: str) -> str:
    page.goto(f"{LIST}?q={name}")
    page.get_by_role("link", name=name, exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Export").click()
    assert download.value.suggested_filename == f"{name}.sql"
    return Path(download.value.path()).read_text()


def test_a_file_goes_out_is_changed_and_comes_back_after_a_look(
    open_page: OpenPage, site: Site, check_accessibility: CheckAccessibility
) -> None:
    save(site, "test.transfer")
    page = open_page(LIST, role="editor")
    text = exported(page, "test.transfer")
    assert text.startswith('/* endpoint\nname = "test.transfer"\n')

    page.goto(LIST)
    page.get_by_role("link", name="Import").click()
    expect(page.get_by_text("Files of endpoints")).to_be_visible()
    take_pictures(page, "import")
    check_accessibility(page)
    upload(page, file("test.transfer.sql", text))
    expect(page.get_by_text("Nothing to import: every file equals the stored endpoint")).to_be_visible()

    changed = text.replace("1 AS one", "2 AS two").replace("max_rows = 1000", "max_rows = 50")
    new = text.replace('name = "test.transfer"', 'name = "test.arrived"')
    upload(page, file("test.transfer.sql", changed), file("arrived.sql", new))
    expect(page.get_by_role("heading", name="test.transfer.sql: would be changed, test.transfer")).to_be_visible()
    expect(page.get_by_role("heading", name="arrived.sql: would be created, test.arrived")).to_be_visible()
    expect(page.get_by_role("region", name="test.transfer.sql")).to_contain_text("max_rows = 50")
    take_pictures(page, "import-preview")
    check_accessibility(page)
    page.get_by_role("button", name="Import", exact=True).click()
    expect(page.get_by_text("Imported: 1 changed, 1 created.")).to_be_visible()
    assert exported(page, "test.transfer") == changed
    assert exported(page, "test.arrived") == new


def test_a_faulty_file_is_refused_with_its_line_and_nothing_is_imported(
    open_page: OpenPage, site: Site, check_accessibility: CheckAccessibility
) -> None:
    page = open_page(f"{LIST}import/")
    good = '/* endpoint\nname = "test.good"\n*/\nSELECT 1 AS one\n'
    upload(page, file("good.sql", good), file("bad.sql", good.replace("good", "bad").replace("1 AS", "nothing AS")))
    expect(page.get_by_role("alert")).to_contain_text("Nothing was imported")
    expect(page.get_by_text('line 4, column 8: PostgreSQL: column "nothing" does not exist.')).to_be_visible()
    expect(page.get_by_role("button", name="Import", exact=True)).to_have_count(0)
    take_pictures(page, "import-refused")
    check_accessibility(page)
    page.goto(f"{LIST}?q=test.good")
    expect(page.get_by_role("link", name="test.good", exact=True)).to_have_count(0)


def test_the_chosen_are_exported_together(open_page: OpenPage) -> None:
    page = open_page(LIST)
    page.get_by_role("row").filter(has_text="logs.all").get_by_role("checkbox").check()
    page.get_by_label("Select action to run").select_option("export_chosen")
    with page.expect_download() as download:
        page.get_by_role("button", name="Run").click()
    assert download.value.suggested_filename == "endpoints.zip"
