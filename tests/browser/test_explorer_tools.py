"""What stands beside a search: shortcuts, clock, columns, severities, top values, files, saved searches, notes."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.pictures import take_pictures

WEEK = "/admin/logs/?source=edge_logs&range=7d"
COLUMNS = f"{WEEK}&lql=m.response.status_code:>0+s:m.response.status_code@status+s:m.request.path"


def wait_for_rows(page: Page) -> None:
    expect(page.get_by_role("heading", name=re.compile("newest first|sorted by|No rows"))).to_be_visible()
    expect(page.get_by_role("button", name="Cancel", exact=True)).to_be_hidden()


def query(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def test_shortcuts_work_where_nobody_types(open_page: OpenPage, check_accessibility: Callable[[Page], None]) -> None:
    page = open_page(WEEK, role="editor")
    wait_for_rows(page)
    lql = page.get_by_role("combobox", name="LQL")
    dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    page.keyboard.press("?")
    expect(dialog).to_be_visible()
    take_pictures(page, "log-explorer-shortcuts")
    check_accessibility(page)
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.keyboard.press("/")
    expect(lql).to_be_focused()
    page.keyboard.type("a/b?")
    expect(lql).to_have_value("a/b?")
    expect(dialog).to_be_hidden()

    page.get_by_role("button", name="Keyboard shortcuts").click()
    dialog.get_by_label("Use the shortcuts of one key in this browser").uncheck()
    dialog.get_by_role("button", name="Close").click()
    page.reload()
    wait_for_rows(page)
    page.keyboard.press("/")
    expect(lql).not_to_be_focused()


def test_a_range_of_ones_own_begins_as_what_is_on_the_screen(open_page: OpenPage) -> None:
    page = open_page(WEEK, role="editor")
    wait_for_rows(page)
    shown = page.locator("#lx-list").inner_text()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.get_by_label("Time range", exact=True).select_option("custom")
    start = page.get_by_label("From (UTC)")
    expect(start).to_be_focused()
    assert page.locator("#lx-list").inner_text() == shown
    assert asked == []
    written = start.input_value()
    page.get_by_role("button", name="Run").click()
    wait_for_rows(page)
    assert query(page)["start"].startswith(written[:16])
    assert page.locator("#lx-list").inner_text() == shown


def test_the_clock_is_chosen_and_kept(open_page: OpenPage) -> None:
    page = open_page(WEEK, role="editor")
    wait_for_rows(page)
    # A zone that is ahead of UTC by half an hour too, and has no summer time.
    page.context.new_cdp_session(page).send("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Kolkata"})
    page.reload()
    wait_for_rows(page)
    first = page.locator("#lx-list time").first
    utc, moment = first.inner_text(), first.get_attribute("datetime")
    page.get_by_label("Clock").select_option("local")
    expect(first).not_to_have_text(utc)
    assert first.get_attribute("datetime") == moment
    hours = (int(first.inner_text()[11:13]) * 60 + int(first.inner_text()[14:16])) - (
        int(utc[11:13]) * 60 + int(utc[14:16])
    )
    assert hours % (24 * 60) == 330
    expect(page.get_by_role("button", name=re.compile(r"(Kolkata|Calcutta): [\d,]+ row")).first).to_be_attached()
    before = query(page)
    page.get_by_label("Time range", exact=True).select_option("custom")
    local = page.get_by_label(re.compile(r"From \(Asia.(Kolkata|Calcutta)\)")).input_value()
    page.get_by_role("button", name="Run").click()
    wait_for_rows(page)
    assert before["range"] == "7d"
    assert query(page)["start"][14:16] != local[14:16]
    page.reload()
    wait_for_rows(page)
    expect(page.get_by_label("Clock")).to_have_value("local")
    expect(page.get_by_label(re.compile(r"From \(Asia.(Kolkata|Calcutta)\)"))).to_have_value(local)


def test_chosen_columns_are_sorted_and_sized(open_page: OpenPage, check_accessibility: Callable[[Page], None]) -> None:
    page = open_page(COLUMNS, role="editor")
    wait_for_rows(page)
    grid = page.get_by_role("table", name=re.compile("rows"))
    heads = grid.get_by_role("columnheader")
    expect(heads).to_have_text(["timestamp", "project", "status", "m.request.path"])
    take_pictures(page, "log-explorer-columns")
    check_accessibility(page)
    status = heads.nth(2)
    for order in ("ascending", "descending"):
        status.get_by_role("button").click()
        expect(status).to_have_attribute("aria-sort", order)
        shown = [int(text) for text in grid.locator("tbody > tr:first-child > td:nth-child(3)").all_inner_texts()]
        assert shown == sorted(shown, reverse=order == "descending")
        assert len(shown) == 100
    expect(page.get_by_role("heading", name="sorted by status")).to_be_visible()
    grip = page.get_by_role("separator", name="Width of status")
    expect(grip).to_have_attribute("aria-valuenow", "220")
    grip.press("ArrowLeft")
    expect(grip).to_have_attribute("aria-valuenow", "210")
    page.get_by_role("button", name="Run").click()
    wait_for_rows(page)
    expect(grip).to_have_attribute("aria-valuenow", "210")
    assert query(page) == {
        "source": "edge_logs",
        "range": "7d",
        "lql": "m.response.status_code:>0 s:m.response.status_code@status s:m.request.path",
        "sort": "status:desc",
    }
    page.reload()
    wait_for_rows(page)
    expect(heads.nth(2)).to_have_attribute("aria-sort", "descending")

    # A column with another name filters by its path.
    grid.get_by_role("button").filter(has=page.locator("time")).first.click()
    page.get_by_role("button", name=re.compile(r"^Filter for: metadata\.response\.status_code \d+$")).click()
    expect(page.get_by_role("combobox", name="LQL")).to_have_value(re.compile(r" m\.response\.status_code:\d+$"))
    wait_for_rows(page)


def test_rows_keep_their_stripe_and_bars_say_severities(open_page: OpenPage) -> None:
    page = open_page(f"{WEEK}&lql=m.response.status_code:%3E=500", role="editor")
    wait_for_rows(page)
    legend = page.get_by_role("list", name="Severities")
    expect(legend).to_have_text(re.compile(r"^\s*error [\d,]+\s*$"))
    count = page.locator("#lx-list > li").count()
    expect(page.locator("#lx-list > li.lx-severity-error")).to_have_count(count)
    page.get_by_text("The histogram as a table").click()
    expect(page.get_by_role("columnheader", name="error")).to_be_visible()

    lql = page.get_by_role("combobox", name="LQL")
    lql.fill("m.response.status_code:>=500 s:m.request.path")
    lql.press("Enter")
    expect(page.locator(".lx-grid tbody.lx-severity-error")).to_have_count(count)
    lql.fill("")
    lql.press("Enter")
    expect(legend).to_have_text(re.compile("error.*warning.*info", re.DOTALL))
    expect(page.get_by_role("button", name=re.compile(r"UTC: [\d,]+ rows?, .*\d+ info")).first).to_be_attached()


def test_top_values_are_counted_and_add_filters(
    open_page: OpenPage, check_accessibility: Callable[[Page], None]
) -> None:
    page = open_page(WEEK, role="editor")
    wait_for_rows(page)
    page.get_by_label("Top values of", exact=True).fill("m.request.method")
    page.get_by_role("button", name="Count").click()
    panel = page.get_by_role("region", name="Top values of m.request.method")
    expect(panel.get_by_role("row")).not_to_have_count(0)
    expect(panel.get_by_text(re.compile(r"^[\d,]+ values counted\.$"))).to_be_visible()
    take_pictures(page, "log-explorer-values")
    check_accessibility(page)
    value = panel.get_by_role("row").nth(1).get_by_role("cell").first.inner_text()
    panel.get_by_role("button", name=f"Filter for: m.request.method {value}").click()
    expect(page.get_by_role("combobox", name="LQL")).to_have_value(f"m.request.method:{value}")
    expect(panel.get_by_role("row")).to_have_count(2)
    expect(panel.get_by_role("row").nth(1)).to_contain_text("100.0 %")
    panel.get_by_role("button", name="Close").click()
    expect(panel).to_be_hidden()
    page.get_by_label("Top values of", exact=True).fill("a b")
    page.get_by_role("button", name="Count").click()
    expect(page.get_by_role("alert").filter(has_text="LQL cannot name this field")).to_be_visible()


def test_rows_are_downloaded_as_they_are_shown(open_page: OpenPage) -> None:
    page = open_page(f"{WEEK}&project=acme&lql=s:m.request.method@method", role="editor")
    wait_for_rows(page)
    page.get_by_text("Download", exact=True).click()
    with page.expect_download() as started:
        page.get_by_role("button", name="CSV", exact=True).click()
    file = started.value
    assert re.fullmatch(r"edge_logs-\d{8}T\d{6}Z\.csv", file.suggested_filename)
    with file.path().open(newline="") as lines:
        head, *rows = list(csv.reader(lines))
    assert head == ["method", "timestamp", "id"]
    assert len(rows) == 100
    expect(page.get_by_role("status").filter(has_text="Saved 100 rows as edge_logs-")).to_contain_text(
        "more rows match"
    )
    page.get_by_label("Rows", exact=True).select_option("1000")
    for name, suffix in (("NDJSON", "ndjson"), ("Parquet", "parquet")):
        with page.expect_download() as started:
            page.get_by_role("button", name=name, exact=True).click()
        assert started.value.suggested_filename.endswith(f".{suffix}")


def test_saved_searches_are_ones_own(open_page: OpenPage, check_accessibility: Callable[[Page], None]) -> None:
    page = open_page(f"{WEEK}&lql=m.response.status_code:%3E=500", role="editor")
    wait_for_rows(page)
    page.get_by_text("Saved searches", exact=True).click()
    page.get_by_label("Save this search as").fill("Errors <b>of</b> the week")
    page.get_by_role("button", name="Save search").click()
    link = page.get_by_role("link", name="Errors <b>of</b> the week")
    expect(link).to_be_visible()
    take_pictures(page, "log-explorer-saved")
    check_accessibility(page)

    theirs = open_page(WEEK, role="owner")
    wait_for_rows(theirs)
    theirs.get_by_text("Saved searches", exact=True).click()
    expect(theirs.get_by_text("None yet.")).to_be_visible()

    page.goto("/admin/logs/")
    wait_for_rows(page)
    page.get_by_text("Saved searches", exact=True).click()
    link.click()
    expect(page.get_by_role("combobox", name="LQL")).to_have_value("m.response.status_code:>=500")
    wait_for_rows(page)
    page.get_by_text("Saved searches", exact=True).click()
    page.get_by_role("button", name="Delete “Errors <b>of</b> the week”").click()
    expect(link).to_have_count(0)


def test_notes_say_what_a_query_does_not_mean(open_page: OpenPage) -> None:
    page = open_page(WEEK, role="editor")
    wait_for_rows(page)
    lql = page.get_by_role("combobox", name="LQL")
    lql.fill("m.respnse.status_code:500 OR m.respnse.status_code:503")
    lql.press("Enter")
    notes = page.get_by_role("status", name="Notes on the query")
    expect(notes).to_contain_text('Write m.respnse.status_code:~"^(500|503)$" instead.')
    expect(notes).to_contain_text("Did you mean m.response.status_code?")
    take_pictures(page, "log-explorer-notes")
    lql.fill("m.response.status_code:500")
    lql.press("Enter")
    wait_for_rows(page)
    expect(notes).to_be_empty()
