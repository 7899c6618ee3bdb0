"""People and their roles; and the pages that come with Django, unfold and Celery beat, under the strict policy."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.pictures import take_pictures

PHRASE, NEW = "a long pass phrase", "another pass phrase"
CheckAccessibility = Callable[[Page], None]


@pytest.mark.parametrize(
    ("role", "shown", "absent"),
    [
        ("viewer", ["Endpoints", "Access tokens", "Log sources", "Schedules"], ["Log explorer", "Users", "Groups"]),
        ("editor", ["Endpoints", "Access tokens", "Log sources", "Log explorer", "Schedules"], ["Users", "Groups"]),
        ("owner", ["Endpoints", "Access tokens", "Log explorer", "Schedules", "Users", "Groups"], []),
    ],
)
def test_the_menu_has_what_a_role_may_do(
    open_page: OpenPage, role: str, shown: list[str], absent: list[str], check_accessibility: CheckAccessibility
) -> None:
    page = open_page("/admin/endpoints/endpoint/", role=role)
    for name in shown:
        expect(page.get_by_role("link", name=name, exact=False).first).to_be_visible()
    for name in absent:
        expect(page.get_by_role("link", name=name)).to_have_count(0)
    take_pictures(page, f"endpoints-{role}")
    check_accessibility(page)


def test_a_viewer_looks_at_an_endpoint_and_can_change_nothing(
    open_page: OpenPage, check_accessibility: CheckAccessibility
) -> None:
    page = open_page("/admin/endpoints/endpoint/?q=logs.all", role="viewer")
    page.get_by_role("link", name="logs.all", exact=True).click()
    expect(page.get_by_text("where t.project = @project").first).to_be_visible()
    for name in ("Save", "Delete", "Run", "Format"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    expect(page.get_by_role("link", name="Export")).to_have_count(0)
    take_pictures(page, "endpoint-viewer")
    check_accessibility(page)


def test_an_owner_adds_a_person_who_logs_in_and_changes_the_password(
    open_page: OpenPage, check_accessibility: CheckAccessibility
) -> None:
    page = open_page("/admin/auth/user/add/")
    page.get_by_label("Username").fill("newcomer")
    page.get_by_label("Password", exact=True).fill(PHRASE)
    page.get_by_label("Password confirmation").fill(PHRASE)
    page.get_by_role("checkbox", name="editor").check()
    take_pictures(page, "person-add")
    check_accessibility(page)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("was added successfully")).to_be_visible()
    expect(page.get_by_role("checkbox", name="editor")).to_be_checked()
    take_pictures(page, "person")
    check_accessibility(page)

    theirs = open_page("/admin/", role=None)
    theirs.get_by_label("Username").fill("newcomer")
    theirs.get_by_label("Password").fill(PHRASE)
    theirs.get_by_role("button", name="Log in").click()
    expect(theirs.get_by_role("link", name="Log explorer")).to_be_visible()
    theirs.goto("/admin/password_change/")
    for label, phrase in (("Old password", PHRASE), ("New password*", NEW), ("New password confirmation", NEW)):
        theirs.get_by_label(label, exact=label.endswith("*")).fill(phrase)
    take_pictures(theirs, "password-change")
    check_accessibility(theirs)
    theirs.get_by_role("button", name="Change password").click()
    expect(theirs.get_by_text("Your password was changed")).to_be_visible()
    take_pictures(theirs, "password-changed")
    check_accessibility(theirs)


OTHER_PAGES = {
    "people": "/admin/auth/user/",
    "schedules": "/admin/schedules/",
    "failed-logins": "/admin/axes/accessattempt/",
    "no-endpoints": "/admin/endpoints/endpoint/?q=nothing-matches",
    "groups": "/admin/auth/group/",
    "group-add": "/admin/auth/group/add/",
    "scheduled-tasks": "/admin/django_celery_beat/periodictask/",
    "scheduled-task-add": "/admin/django_celery_beat/periodictask/add/",
    "intervals": "/admin/django_celery_beat/intervalschedule/",
    "interval-add": "/admin/django_celery_beat/intervalschedule/add/",
    "crontab-add": "/admin/django_celery_beat/crontabschedule/add/",
    "clocked-add": "/admin/django_celery_beat/clockedschedule/add/",
    "solar-add": "/admin/django_celery_beat/solarschedule/add/",
    "application": "/admin/endpoints/",
    "not-there": "/admin/endpoints/endpoint/00000000-0000-0000-0000-000000000000/change/",
}


def test_every_other_page_keeps_the_policy(open_page: OpenPage, check_accessibility: CheckAccessibility) -> None:
    page = open_page("/admin/")
    for name, address in OTHER_PAGES.items():
        page.goto(address)
        expect(page.get_by_role("link", name="Endpoints", exact=False).first).to_be_visible()
        take_pictures(page, name)
        check_accessibility(page)


@pytest.mark.parametrize(
    ("address", "words"),
    [("/admin/auth/user/", "You don't have permission"), ("/admin/nothing", "Page not found")],
)
def test_who_gets_no_page_is_told_why(
    open_page: OpenPage, address: str, words: str, check_accessibility: CheckAccessibility
) -> None:
    page = open_page(address, role="viewer", dark=True)
    expect(page.get_by_role("heading", name=words)).to_be_visible()
    expect(page.get_by_role("link", name="Endpoints", exact=True)).to_be_visible()  # the menu is still there
    take_pictures(page, words)
    check_accessibility(page)
    page.get_by_role("link", name="Back to dashboard").click()
    expect(page.get_by_role("link", name="Access tokens").first).to_be_visible()


def test_an_owner_goes_from_the_schedules_to_a_form_behind_them(open_page: OpenPage) -> None:
    page = open_page("/admin/schedules/")
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="usage.api-counts"))
    expect(row).to_contain_text("every 5 minutes")
    row.get_by_role("link", name="Edit").click()
    expect(page.get_by_role("button", name="Save", exact=True)).to_be_visible()


def test_a_viewer_reads_the_schedules_and_edits_none(
    open_page: OpenPage, check_accessibility: CheckAccessibility
) -> None:
    page = open_page("/admin/schedules/", role="viewer", width=390, dark=True)
    expect(page.get_by_role("link", name="usage.api-counts")).to_be_visible()
    expect(page.get_by_role("link", name="Edit")).to_have_count(0)
    expect(page.get_by_role("link", name="Scheduled tasks")).to_have_count(0)
    take_pictures(page, "schedules-viewer")
    check_accessibility(page)


def test_a_delete_is_asked_about(open_page: OpenPage, check_accessibility: CheckAccessibility) -> None:
    page = open_page("/admin/endpoints/endpoint/?q=usage.api-counts")
    page.get_by_role("link", name="usage.api-counts", exact=True).click()
    page.get_by_role("link", name="Delete").click()
    expect(page.get_by_text("Are you sure you want to delete")).to_be_visible()
    take_pictures(page, "delete")
    check_accessibility(page)
    page.get_by_role("link", name="Cancel").click()
    expect(page.get_by_role("button", name="Save", exact=True)).to_be_visible()
