"""The versions of an endpoint: who changed what, word by word, and one of them put back."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.pictures import take_pictures
from tests.browser.site import Site
from tests.live.calls import Caller

SQL = "WITH rows AS (\n  SELECT @project AS project,\n    1 AS one\n)\nSELECT project, {column}\nFROM rows"
CheckAccessibility = Callable[[Page], None]


def save_versions(site: Site, name: str) -> None:
    site.console.do("save", name=name, parameters={"project": "text"}, settings={"sql": SQL.format(column="one")})
    second = {"sql": SQL.format(column="one + 1 AS two"), "max_rows": 7}
    site.console.do("save", name=name, parameters={"project": "text"}, settings=second)


def open_history(page: Page, name: str) -> None:
    page.get_by_role("link", name=name, exact=True).click()
    page.get_by_role("link", name="History", exact=True).click()
    expect(page.get_by_role("link", name="version 2")).to_be_visible()


def columns_of(site: Site, name: str) -> list[str]:
    with Caller(site.installation.port, site.secret) as caller:
        (row,) = caller.query(name, {"project": "acme"}).rows
    return sorted(row)


def test_an_editor_sees_what_changed_and_puts_the_first_version_back(
    open_page: OpenPage, site: Site, check_accessibility: CheckAccessibility
) -> None:
    save_versions(site, "test.versions")
    page = open_page("/admin/endpoints/endpoint/?q=test.versions", role="editor")
    open_history(page, "test.versions")
    expect(page.get_by_role("row").filter(has_text="version 2")).to_contain_text("SQL")
    expect(page.get_by_role("row").filter(has_text="version 2")).to_contain_text("max rows")
    take_pictures(page, "history")
    check_accessibility(page)

    page.get_by_role("link", name="version 2").click()
    changes = page.get_by_role("region", name="Changes of the SQL")
    expect(changes.locator("ins")).to_have_text(re.compile(r"\+ 1 AS two"))
    expect(page.locator("dl")).to_contain_text(re.compile(r"max rows\s*1000\s*7"))
    take_pictures(page, "version-newest")
    check_accessibility(page)
    expect(page.get_by_role("button", name=re.compile("Restore"))).to_have_count(0)

    page.go_back()
    page.get_by_role("link", name="version 1").click()
    page.get_by_role("link", name="Compare with the latest version").click()
    expect(page.get_by_text("From version 1 to version 2, the latest")).to_be_visible()
    take_pictures(page, "version-older")
    check_accessibility(page)

    assert columns_of(site, "test.versions") == ["project", "two"]
    page.get_by_role("button", name="Restore as version 3").click()
    expect(page.get_by_text("Version 1 restored as version 3.")).to_be_visible()
    assert columns_of(site, "test.versions") == ["one", "project"]
    page.get_by_role("link", name="History", exact=True).click()
    newest = page.get_by_role("row").filter(has_text="version 3")
    expect(newest).to_contain_text("restored from version 1")
    expect(newest).to_contain_text("editor")


def test_any_two_versions_are_chosen_and_compared(
    open_page: OpenPage, site: Site, check_accessibility: CheckAccessibility
) -> None:
    save_versions(site, "test.compared")
    third = {"sql": SQL.format(column="one + 2 AS three")}
    site.console.do("save", name="test.compared", parameters={"project": "text"}, settings=third)
    page = open_page("/admin/endpoints/endpoint/?q=test.compared", role="viewer")
    open_history(page, "test.compared")
    page.get_by_role("radio", name="from version 1").check()
    page.get_by_role("button", name="Compare the two versions").click()
    expect(page.get_by_role("heading", name="From version 1 to version 3")).to_be_visible()
    expect(page.get_by_role("region", name="Changes of the SQL").locator("ins")).to_have_text(
        re.compile(r"\+ 2 AS three")
    )
    take_pictures(page, "versions-compared")
    check_accessibility(page)
    page.get_by_label("To version").select_option("2")
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.get_by_role("heading", name="From version 1 to version 2")).to_be_visible()
    page.get_by_role("link", name="View latest version").click()
    expect(page.get_by_text("one + 2 AS three").first).to_be_visible()


def test_a_viewer_reads_versions_and_finds_no_button(open_page: OpenPage, site: Site) -> None:
    save_versions(site, "test.read-only")
    page = open_page("/admin/endpoints/endpoint/?q=test.read-only", role="viewer")
    open_history(page, "test.read-only")
    page.get_by_role("link", name="version 1").click()
    expect(page.get_by_role("heading", name="The SQL of version 1")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("Restore"))).to_have_count(0)
