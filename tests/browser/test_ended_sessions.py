"""A form outlives the session that it was opened in: the page says that it is over, and the form is saved later."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.editing import NEW_ENDPOINT, field, type_sql

POLL_SECONDS = 30
OVER = "Your session is over"


def fill_endpoint(page: Page) -> None:
    field(page, "name").fill("browser.ended-session")
    type_sql(page, "select 'typed before the end' as a")


def fill_access_token(page: Page) -> None:
    field(page, "name").fill("ended session")
    page.get_by_label("Every endpoint").check()


def fill_alert(page: Page) -> None:
    field(page, "name").fill("ended session")
    field(page, "threshold").fill("12")
    field(page, "webhook_url").fill("https://example.com/hook")


def fill_log_source(page: Page) -> None:
    field(page, "name").fill("ended_session_logs")
    field(page, "holds").fill("rows of a test")


FORMS = {
    "endpoint": (NEW_ENDPOINT, fill_endpoint, "was added successfully"),
    "access token": ("/admin/endpoints/accesstoken/add/", fill_access_token, "Copy the secret now"),
    "alert": ("/admin/endpoints/alert/add/", fill_alert, "Copy the secret now"),
    "log source": ("/admin/logsources/logsource/add/", fill_log_source, "was added successfully"),
}


@pytest.fixture
def open_form(open_page: OpenPage) -> Callable[[str], Page]:
    """Open a form in a page whose clock the test moves."""

    def open_form(path: str) -> Page:
        page = open_page("/admin/")
        page.clock.install()
        page.goto(path)
        return page

    return open_form


def end_session(page: Page) -> None:
    page.context.clear_cookies(name="sessionid")


def log_in_elsewhere(page: Page, log_in: Callable[[Page, str], None]) -> None:
    with page.context.expect_page() as opened:
        page.get_by_role("alert").get_by_role("link", name="Log in in another tab").click()
    log_in(opened.value, "owner")
    opened.value.close()


@pytest.mark.parametrize("kind", FORMS)
def test_a_form_is_told_and_saved_after_the_next_login(
    open_form: Callable[[str], Page], log_in: Callable[[Page, str], None], kind: str
) -> None:
    path, fill, saved = FORMS[kind]
    page = open_form(path)
    fill(page)
    end_session(page)
    page.clock.run_for(POLL_SECONDS * 1000)
    expect(page.get_by_role("alert").filter(has_text=OVER)).to_be_visible()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("alert").filter(has_text="Nothing was sent")).to_be_visible()
    assert page.url.endswith(path)

    log_in_elsewhere(page, log_in)
    page.clock.run_for(POLL_SECONDS * 1000)
    expect(page.locator("#session-over")).to_be_hidden()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text(saved).first).to_be_visible()
    assert not page.url.endswith(path)


def test_the_session_is_asked_for_before_each_save(
    open_form: Callable[[str], Page], log_in: Callable[[Page, str], None]
) -> None:
    """Between two polls nothing is lost either, nor where somebody saves before the next poll has seen the login."""
    path, fill, saved = FORMS["log source"]
    page = open_form(path)
    fill(page)
    field(page, "name").fill("ended_unseen_logs")
    end_session(page)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("alert").filter(has_text="Nothing was sent")).to_be_visible()
    log_in_elsewhere(page, log_in)
    page.get_by_role("button", name="Save and continue editing").click()
    expect(page.get_by_text(saved).first).to_be_visible()
    expect(field(page, "holds")).to_have_value("rows of a test")
    assert "/change/" in page.url  # the button that was pressed is the one that was sent


def test_nothing_is_sent_to_a_service_that_cannot_be_reached(open_form: Callable[[str], Page]) -> None:
    page = open_form(FORMS["log source"][0])
    field(page, "name").fill("unreached_logs")
    page.route("**/admin/session/", lambda route: route.fulfill(status=503, body="restarting"))
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("alert").filter(has_text="Nothing was sent")).to_be_visible()
    expect(field(page, "name")).to_have_value("unreached_logs")
