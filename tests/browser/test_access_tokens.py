"""An access token's life: issued with limits, copied, used, watched, revoked."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.pictures import take_pictures
from tests.browser.site import Site
from tests.live.calls import Caller

LIST = "/admin/endpoints/accesstoken/"
SECRET = re.compile(r"lqe_[0-9a-f]{12}_[A-Za-z0-9_-]{43}")
CheckAccessibility = Callable[[Page], None]


def status_of(site: Site, secret: str, endpoint: str, **arguments: str) -> int:
    with Caller(site.installation.port, secret) as caller:
        return caller.query(endpoint, arguments).status


def fill_in(page: Page, name: str, *, expires: datetime) -> None:
    page.get_by_label("Name").fill(name)
    expect(page.locator("#id_expires_at_0")).to_be_hidden()
    page.get_by_role("radio", name="at a date").check()
    page.locator("#id_expires_at_0").fill(f"{expires:%Y-%m-%d}")
    page.locator("#id_expires_at_1").fill(f"{expires:%H:%M}")
    expect(page.get_by_label("Every endpoint")).not_to_be_checked()
    page.get_by_role("checkbox", name="logs.all").check()
    page.get_by_label("Bound arguments").fill("project=acme")


def test_a_token_is_issued_copied_used_and_revoked(
    open_page: OpenPage, site: Site, check_accessibility: CheckAccessibility
) -> None:
    page = open_page(f"{LIST}add/")
    fill_in(page, "Acme dashboard", expires=datetime.now(UTC) + timedelta(days=3, hours=2))
    take_pictures(page, "access-token-add")
    check_accessibility(page)
    page.get_by_role("button", name="Save", exact=True).click()

    # The secret: once, and copied by keys alone.
    secret = page.get_by_role("region", name="Secret").inner_text()
    assert SECRET.fullmatch(secret)
    take_pictures(page, "access-token-secret")
    check_accessibility(page)
    assert secret not in page.url
    assert not [cookie for cookie in page.context.cookies() if cookie["name"] == "shown_once"]
    button = page.get_by_role("button", name="Copy the secret")
    button.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="Copied")).to_have_count(1)
    assert page.evaluate("navigator.clipboard.readText()") == secret
    expect(button).to_be_visible()  # it says “Copied” for a moment only
    page.get_by_role("button", name="Copy the call").click()
    assert "/api/endpoints/query/logs.all" in page.evaluate("navigator.clipboard.readText()")

    # Reloaded, the page neither shows the secret again nor issues another access token.
    page.reload()
    expect(page.get_by_role("heading", name="The secret was shown once")).to_be_visible()
    assert secret not in page.content()
    take_pictures(page, "access-token-secret-shown")
    check_accessibility(page)

    # It may what was chosen, and nothing else.
    assert status_of(site, secret, "logs.all") == 200
    assert status_of(site, secret, "logs.all", project="globex") == 403
    assert status_of(site, secret, "usage.api-counts") == 404

    page.goto(LIST)
    row = page.get_by_role("row").filter(has_text="Acme dashboard")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("expires in 3 days")
    expect(row).to_contain_text("project=acme")
    assert secret not in page.content()
    take_pictures(page, "access-tokens")
    check_accessibility(page)

    row.get_by_role("link", name="Acme dashboard").click()
    expect(page.get_by_text("expires in 3 days")).to_be_visible()
    take_pictures(page, "access-token")
    check_accessibility(page)
    page.get_by_role("link", name="Revoke").click()
    expect(page.get_by_text("Calls with this access token are refused from then on")).to_be_visible()
    take_pictures(page, "access-token-revoke")
    check_accessibility(page)
    page.get_by_role("link", name="Cancel").click()
    assert status_of(site, secret, "logs.all") == 200
    page.get_by_role("link", name="Revoke").click()
    page.get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("calls with them are refused from now on")).to_be_visible()
    expect(page.get_by_role("link", name="Revoke")).to_have_count(0)
    assert status_of(site, secret, "logs.all") == 401


def test_a_mistake_is_said_at_its_field(open_page: OpenPage, check_accessibility: CheckAccessibility) -> None:
    page = open_page(f"{LIST}add/")
    page.get_by_label("Name").fill("mistaken")
    page.get_by_role("radio", name="at a date").check()
    page.locator("#id_expires_at_0").fill("2020-01-01")
    page.locator("#id_expires_at_1").fill("12:00")
    page.get_by_label("Every endpoint").check()
    page.get_by_role("checkbox", name="logs.all").check()
    page.get_by_label("Bound arguments").fill("project")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Write one NAME=VALUE per line")).to_be_visible()
    expect(page.get_by_text("Clear this to limit the access token")).to_be_visible()
    expect(page.get_by_text("This is in the past")).to_be_visible()
    take_pictures(page, "access-token-mistake")
    check_accessibility(page)


def test_several_are_revoked_from_the_list_after_a_question(open_page: OpenPage, site: Site) -> None:
    secrets = [site.console.do("issue", name=f"to be revoked {number}") for number in range(2)]
    page = open_page(f"{LIST}?q=to+be+revoked")
    for number in range(2):
        page.get_by_role("row").filter(has_text=f"to be revoked {number}").get_by_role("checkbox").check()
    page.get_by_label("Select action to run").select_option("revoke")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_text("Calls with these access tokens are refused from then on")).to_be_visible()
    page.get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("2 revoked; calls with them")).to_be_visible()
    assert [status_of(site, secret, "logs.all", project="acme") for secret in secrets] == [401, 401]
