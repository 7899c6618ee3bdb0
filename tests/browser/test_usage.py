"""The page "Usage": from an example that is filled in and copied to calls that are listed, and the cache emptied."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.pictures import take_pictures
from tests.browser.site import Site
from tests.live.calls import until

NAME = "browser.orders"
SQL = "SELECT @customer AS customer, @unit AS unit, @times AS times"
# Everything that a shell, Python and JavaScript treat in a way of their own.
CUSTOMER = 'it\'s "a" \\ $HOME `x` ü'


@pytest.fixture
def endpoint(site: Site) -> str:
    """The name of an endpoint that caches."""
    parameters = {"customer": "text", "times": "integer", "unit": "date"}
    site.installation.save(NAME, SQL, parameters=parameters, cache_seconds=600, warm_every_seconds=300)
    return NAME


def go_from_dashboard(page: Page, endpoint: str) -> None:
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=endpoint))
    row.get_by_role("link", name="Usage").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(endpoint, ignore_case=True)


def example(page: Page, language: str) -> Locator:
    """Choose a language and return its example."""
    page.get_by_role("tab", name=language).click()
    return page.get_by_role("tabpanel", name=language)


def copied(page: Page, language: str) -> str:
    """Copy an example with the keyboard and return what is in the clipboard."""
    chosen = example(page, language)
    page.keyboard.press("Tab")
    expect(chosen.get_by_role("button", name="Copy")).to_be_focused()
    page.keyboard.press("Enter")
    expect(chosen.get_by_role("status")).to_have_text("Copied")
    text: str = page.evaluate("navigator.clipboard.readText()")
    return text


def output_of(command: list[str], program: str) -> str:
    run = subprocess.run(command, input=program, capture_output=True, text=True, check=True)
    return run.stdout


def test_an_endpoint_is_called_as_its_page_says(
    site: Site, open_page: OpenPage, endpoint: str, check_accessibility: Callable[[Page], None]
) -> None:
    page = open_page("/admin/")
    go_from_dashboard(page, endpoint)
    expect(page.get_by_text("Nobody has called it yet.")).to_be_visible()
    take_pictures(page, "usage-unused")

    page.get_by_label("Access token", exact=True).fill(site.secret)
    page.get_by_label("@customer").fill(CUSTOMER)
    (row,) = json.loads(output_of(["/bin/sh"], copied(page, "curl")))["result"]
    assert (row["customer"], row["times"]) == (CUSTOMER, 1)
    assert output_of([sys.executable, "-"], copied(page, "Python")).strip() == str(row)
    javascript = copied(page, "JavaScript").replace("console.log(answer.result)", "return answer.result")
    assert page.evaluate(f"(async () => {{ {javascript} }})()") == [row]
    take_pictures(page, "usage-filled-in")

    calls = page.get_by_role("region", name="Last calls").get_by_role("row").filter(has_text="drills")

    def are_listed() -> bool:  # a process writes the calls it has noted once a second
        page.reload()
        expect(page.get_by_role("heading", name="Who may call it")).to_be_visible()
        return calls.count() == 3

    until(are_listed, seconds=20)
    expect(calls.first).to_contain_text("hit")
    expect(calls.last).to_contain_text("miss")
    # The value was typed on the page, which no call list may tell.
    expect(calls.filter(has_text=CUSTOMER)).to_have_count(0)
    check_accessibility(page)
    take_pictures(page, "usage")

    page.get_by_role("button", name="Remove the cached results").click()
    expect(page.get_by_text("1 cached results removed")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_contain_text(endpoint, ignore_case=True)


def test_an_example_is_copied_where_browsers_have_no_clipboard(open_page: OpenPage, endpoint: str) -> None:
    # As for a page that came over plain HTTP from another machine.
    page = open_page("/admin/")
    page.add_init_script("Object.defineProperty(Navigator.prototype, 'clipboard', { value: undefined })")
    go_from_dashboard(page, endpoint)
    chosen = example(page, "curl")
    text = chosen.get_by_role("code").text_content()
    chosen.get_by_role("button", name="Copy").click()
    expect(chosen.get_by_role("status")).to_have_text("Copied")
    page.get_by_label("@customer").focus()
    page.keyboard.press("Control+V")
    assert text is not None
    expect(page.get_by_label("@customer")).to_have_value(text.replace("\n", " "))  # a field is one line


def test_the_examples_of_an_own_query(open_page: OpenPage) -> None:
    page = open_page("/admin/")
    go_from_dashboard(page, "logs.all")
    page.get_by_role("link", name="A query in SQL").click()
    expect(example(page, "curl")).to_contain_text("sql=SELECT * FROM edge_logs LIMIT 10")
    expect(page.get_by_role("link", name="A query in SQL")).to_have_attribute("aria-current", "true")
    page.get_by_role("link", name="A query in LQL").click()
    expect(example(page, "Python")).to_contain_text('"lql": "f:edge_logs t:last@1hour"')


def test_a_viewer_reads_it_and_purges_nothing(
    open_page: OpenPage, endpoint: str, check_accessibility: Callable[[Page], None]
) -> None:
    page = open_page("/admin/", role="viewer", width=390, dark=True)
    go_from_dashboard(page, endpoint)
    expect(example(page, "curl")).to_be_visible()
    expect(page.get_by_role("button", name="Remove the cached results")).to_have_count(0)
    expect(page.get_by_role("link", name="Issue an access token")).to_have_count(0)
    check_accessibility(page)


def test_its_document_and_its_history_are_a_link_away(open_page: OpenPage, endpoint: str) -> None:
    page = open_page("/admin/")
    go_from_dashboard(page, endpoint)
    document = page.get_by_role("link", name="OpenAPI document").get_attribute("href")
    assert document is not None
    answer = page.request.get(document)
    assert f"/api/endpoints/query/{endpoint}" in answer.json()["paths"]
    page.get_by_role("link", name="Definition").click()
    page.get_by_role("link", name="Usage").click()
    expect(page.get_by_role("heading", name="Call it", exact=True)).to_be_visible()
    page.get_by_role("link", name="History", exact=True).click()
    expect(page.get_by_role("link", name="version 1", exact=True)).to_be_visible()
