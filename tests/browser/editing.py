"""The endpoint's page as its operator uses it: the editor, its completion, the problems, and what "Try it" shows."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

ENDPOINTS = "/admin/endpoints/endpoint/"
NEW_ENDPOINT = f"{ENDPOINTS}add/"


def go_to_endpoint(page: Page, name: str) -> None:
    """Go from the list of endpoints to the page of one."""
    page.get_by_role("link", name=name, exact=True).click()
    expect(field(page, "name")).to_have_value(name)


def field(page: Page, name: str) -> Locator:
    """Return a field of the endpoint itself; those of its parameters have the same labels."""
    return page.locator(f"#id_{name}")


def type_sql(page: Page, sql: str) -> None:
    """Replace what the editor holds, as if pasted: no completion, no automatic brackets."""
    focus_editor(page)
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    page.keyboard.insert_text(sql)


def rows(page: Page) -> Locator:
    """Return the rows that declare parameters."""
    return page.locator("#parameters-data > .form-group:not(.empty-form)")


def cell(row: Locator, name: str) -> Locator:
    return row.locator(f"[name$='-{name}']")


def focus_editor(page: Page) -> None:
    page.locator(".wb-editor .ace_scroller").click(position={"x": 60, "y": 8})


def sql_of(page: Page) -> str:
    text: str = page.locator("textarea[name=sql]").input_value()
    return text


def said_of_the_draft(page: Page) -> Locator:
    return page.locator("#wb-check-status")


def wait_until_checked(page: Page, said: str) -> None:
    """Wait until what was typed last has been checked, with this said of it."""
    expect(page.locator("#wb-problems")).to_have_attribute("aria-busy", "false")
    expect(said_of_the_draft(page)).to_contain_text(said)


def problem(page: Page, text: str) -> Locator:
    return page.get_by_role("region", name="Problems").get_by_role("listitem").filter(has_text=text)


def argument(page: Page, name: str) -> Locator:
    return page.locator(f"#wb-argument-{name}")


def run(page: Page) -> None:
    page.get_by_role("button", name="Run", exact=True).click()


def said_of_the_run(page: Page) -> Locator:
    return page.locator("#wb-status")


def declared(page: Page) -> list[tuple[str, str]]:
    """Return name and type of the parameters that have a row."""
    return [(cell(row, "name").input_value(), cell(row, "type").input_value()) for row in rows(page).all()]
