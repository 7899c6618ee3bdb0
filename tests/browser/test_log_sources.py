"""The pages of log sources: what is in the tables, some rows, and the way to the explorer."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.pictures import take_pictures

LIST = "/admin/logsources/logsource/"


def inspected(page: Page) -> Locator:
    """Return what the page says of the table; on a busy machine it may have to be asked again, as the page says."""
    table = page.get_by_role("region", name="Table logs.edge_logs")
    for _ in range(5):
        if "in time" not in table.inner_text():
            break
        page.reload()
    return table


def test_an_owner_sees_what_is_in_a_table_and_explores_it(
    open_page: OpenPage, check_accessibility: Callable[[Page], None]
) -> None:
    page = open_page(LIST)
    line = page.get_by_role("row").filter(has_text="edge_logs").filter(has_text="gateway request logs")
    expect(line).to_contain_text(re.compile(r"(about|more than)\s[\d,]+|not counted yet"))
    expect(line).to_contain_text(re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d .*(ago|just now)", re.DOTALL))
    expect(line).to_contain_text("90 days")
    expect(line).to_contain_text(re.compile(r"[\d,]+ new rows?"))
    take_pictures(page, "log-sources")
    check_accessibility(page)

    line.get_by_role("link", name=re.compile("^edge_logs")).click()
    table = inspected(page)
    expect(table).to_contain_text("Size with indexes")
    table.get_by_text(re.compile(r"^\s*\d+ partitions, \d+ with rows\s*$")).click()
    expect(table.get_by_role("row").filter(has_text="all other days")).to_have_count(1)
    table.locator(".ls-message").first.click()
    expect(table.get_by_text('"event_message"').first).to_be_visible()
    take_pictures(page, "log-source")
    check_accessibility(page)

    table.get_by_role("link", name="Explore its rows").click()
    expect(page.get_by_label("Log source", exact=True)).to_have_value("edge_logs")


def test_an_extracted_column_is_added(open_page: OpenPage) -> None:
    page = open_page(LIST)
    page.get_by_role("link", name=re.compile("^pooler_logs")).click()
    page.get_by_role("link", name=re.compile("Add another Extracted column", re.IGNORECASE)).click()
    page.locator("#id_extracted_columns-0-name").fill("state")
    page.locator("#id_extracted_columns-0-path").fill("state")
    page.get_by_role("button", name="Save and continue editing").click()
    expect(page.get_by_text("was changed successfully")).to_be_visible()
    expect(page.locator("#id_extracted_columns-0-name")).to_have_value("state")


def test_a_viewer_sees_how_much_there_is_and_no_rows(
    open_page: OpenPage, check_accessibility: Callable[[Page], None]
) -> None:
    page = open_page(LIST, role="viewer")
    page.get_by_role("link", name=re.compile("^edge_logs")).click()
    table = inspected(page)
    expect(table).to_contain_text("Size with indexes")
    expect(table.get_by_text("Sample rows")).to_have_count(0)
    expect(page.get_by_role("link", name="Explore its rows")).to_have_count(0)
    expect(page.get_by_role("button", name="Save")).to_have_count(0)
    check_accessibility(page)
