"""Logging in and out, and what every page has in common."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.pictures import take_pictures
from tests.browser.site import PASSWORD


def test_somebody_logs_in_and_out(
    open_page: OpenPage, log_in: Callable[[Page, str], None], check_accessibility: Callable[[Page], None]
) -> None:
    page = open_page("/admin/endpoints/endpoint/", role=None)
    take_pictures(page, "login")
    check_accessibility(page)
    log_in(page, "viewer")
    expect(page.get_by_role("heading", level=1)).to_contain_text("endpoint", ignore_case=True)
    page.get_by_text("viewer", exact=True).first.click()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Logged out")).to_be_visible()
    page.goto("/admin/")
    expect(page.get_by_label("Username")).to_be_visible()


def test_a_wrong_password_is_said_and_the_name_stays(
    open_page: OpenPage, check_accessibility: Callable[[Page], None]
) -> None:
    page = open_page("/admin/", role=None)
    page.get_by_label("Username").fill("viewer")
    page.get_by_label("Password").fill(f"{PASSWORD} no")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("Please enter the correct username and password")).to_be_visible()
    expect(page.get_by_label("Username")).to_have_value("viewer")
    check_accessibility(page)


def test_keys_reach_the_page_the_menu_and_the_person(open_page: OpenPage) -> None:
    page = open_page("/admin/endpoints/endpoint/", role="viewer")
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()

    dashboard = page.get_by_role("link", name="Dashboard", exact=True)
    page.get_by_role("button", name="Show or hide the menu").press("Enter")
    expect(dashboard).to_be_hidden()
    page.get_by_role("button", name="Show or hide the menu").press("Space")
    expect(dashboard).to_be_visible()
    page.get_by_role("button", name="viewer").press("Enter")
    expect(page.get_by_role("button", name="Log out")).to_be_visible()


def test_the_menu_opens_on_a_phone(open_page: OpenPage, check_accessibility: Callable[[Page], None]) -> None:
    page = open_page("/admin/logsources/logsource/", role="viewer", width=390)
    dashboard = page.get_by_role("link", name="Dashboard", exact=True)
    expect(dashboard).to_be_hidden()
    page.get_by_role("button", name="Show the menu").press("Enter")
    expect(dashboard).to_be_visible()
    check_accessibility(page)
    page.get_by_role("button", name="Hide the menu").press("Enter")
    expect(dashboard).to_be_hidden()


def test_names_stay_as_they_are_written(open_page: OpenPage) -> None:
    page = open_page("/admin/endpoints/endpoint/")
    page.get_by_role("link", name="usage.api-counts", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("usage.api-counts")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Endpoints")
