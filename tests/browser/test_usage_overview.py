"""The pages about calls and the pages of alerts, in a browser: as an operator meets them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.pictures import take_pictures
from tests.browser.site import Site
from tests.endpoints.alerting.receiver import Receiver, receiving
from tests.live.calls import until


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as one:
        yield one


def test_calls_over_time_and_the_audit_log(
    site: Site, open_page: OpenPage, check_accessibility: Callable[[Page], None]
) -> None:
    site.installation.save(
        "browser.charted",
        "SELECT 10 / @divisor AS quotient",
        parameters={"divisor": "integer"},
        cache_seconds=60,
        record_argument_values=True,
    )
    with site.installation.caller() as caller:
        for divisor in ("1", "1", "1", "2", "3", "0", "x"):
            caller.query("browser.charted", {"divisor": divisor})
    with site.installation.caller(secret="lqe_000000000000_" + "x" * 43) as caller:
        caller.query("browser.charted")
    page = open_page("/admin/usage/", role="editor")
    expect(page.get_by_role("link", name="Calls", exact=True)).to_be_visible()
    page.get_by_role("link", name="Last hour").click()
    page.get_by_role("combobox", name="Endpoint").select_option("browser.charted")
    page.get_by_role("button", name="Show", exact=True).click()
    calls = page.get_by_role("img", name=re.compile("^Calls: 7 calls"))

    def are_shown() -> bool:  # a process writes the calls it has noted three seconds later
        page.get_by_role("link", name="Refresh").click()
        expect(page.get_by_role("heading", name="Calls over time")).to_be_visible()
        return calls.count() == 1

    until(are_shown, seconds=40)
    slowest = page.get_by_role("region", name="Slowest arguments")
    expect(slowest.get_by_text("divisor=2")).to_be_visible()
    page.get_by_text("The charts as a table").click()
    expect(page.get_by_role("columnheader", name="From (UTC)")).to_be_visible()
    take_pictures(page, "usage-overview")
    check_accessibility(page)

    page.get_by_role("combobox", name="Endpoint").select_option("All endpoints")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_role("region", name="Who was refused, and why")).to_contain_text("not authenticated")

    page.get_by_role("link", name="Audit log of calls").click()
    page.get_by_label("Only refused and failed calls").check()
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_role("cell", name=re.compile("stored query failed|invalid parameters")).first).to_be_visible()
    take_pictures(page, "audit-log")
    check_accessibility(page)


def test_an_alert_is_made_and_its_test_message_arrives(
    site: Site, open_page: OpenPage, receiver: Receiver, check_accessibility: Callable[[Page], None]
) -> None:
    page = open_page("/admin/endpoints/alert/add/", role="owner")
    page.get_by_label("Name").fill("errors of browser")
    page.get_by_label("Threshold").fill("5")
    page.get_by_label("Webhook address").fill(receiver.url)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("The address must begin with https://.")).to_be_visible()  # private ones are not allowed
    take_pictures(page, "alert-form")
    check_accessibility(page)
    page.get_by_label("Webhook address").fill("https://127.0.0.1:9/hook")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("the name leads to a private address")).to_be_visible()
    page.get_by_label("Webhook address").fill("https://nobody.invalid/hook")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("region", name="Secret", exact=True)).to_contain_text("lqa_")
    take_pictures(page, "alert-secret")
    check_accessibility(page)
    page.get_by_role("link", name="I have copied it").click()
    page.get_by_role("link", name="Send a test message").click()
    page.get_by_role("button", name="Send a test message").click()
    expect(page.get_by_text("The test message was not delivered").first).to_be_visible()
    assert receiver.received == []
    take_pictures(page, "alert")
    check_accessibility(page)
