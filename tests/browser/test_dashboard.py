"""The admin's first page, from an installation that nobody has called to one that is called, refused and down."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.pictures import take_pictures
from tests.browser.site import Site
from tests.drills import MUCH_LATER_SECONDS
from tests.live.calls import until


def test_health_endpoints_and_log_sources(
    site: Site, open_page: OpenPage, check_accessibility: Callable[[Page], None]
) -> None:
    site.installation.save("browser.used", "SELECT 10 / @divisor AS quotient", parameters={"divisor": "integer"})
    page = open_page("/admin/")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Dashboard")
    health = page.get_by_role("region", name="Health")
    for part in ("Django database", "Log database", "Redis"):
        expect(health.get_by_role("heading", name=f"{part} running")).to_be_visible()
    # No beat belongs to this installation, which may have just been started.
    expect(health.get_by_role("heading", name=re.compile("Beat (starting|down)"))).to_be_visible()
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="browser.used"))
    expect(row.get_by_role("cell", name="no calls")).to_be_visible()

    with site.installation.caller() as caller:
        for divisor in ("1", "2", "3", "0", "x"):
            caller.query("browser.used", {"divisor": divisor})
    five = row.get_by_role("img", name=re.compile("^5 calls in the last 24 hours, 1 refused and 1 failed"))

    def are_shown() -> bool:  # a process writes the calls it has noted once a second
        page.get_by_role("link", name="Refresh").click()
        expect(row).to_be_visible()
        return five.count() == 1

    until(are_shown, seconds=20)
    sources = page.get_by_role("region", name="Log sources")
    expect(sources.get_by_role("listitem").filter(has_text="auth_logs")).to_contain_text("ago")
    take_pictures(page, "dashboard")
    check_accessibility(page)

    row.get_by_role("link", name="Usage").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("browser.used", ignore_case=True)


def test_redis_away_is_said_and_the_page_stays(
    site: Site, open_page: OpenPage, check_accessibility: Callable[[Page], None]
) -> None:
    page = open_page("/admin/")
    with site.installation.servers.redis_frozen():
        started = time.monotonic()
        page.goto("/admin/")
        assert time.monotonic() - started < MUCH_LATER_SECONDS
        health = page.get_by_role("region", name="Health")
        expect(health.get_by_role("heading", name="Redis down")).to_be_visible()
        expect(page.get_by_text("their numbers are unknown at the moment")).to_be_visible()
        take_pictures(page, "dashboard-without-redis")
        check_accessibility(page)


def test_a_viewer_sees_figures_and_nothing_to_change(open_page: OpenPage) -> None:
    page = open_page("/admin/", role="viewer", width=390)
    expect(page.get_by_role("rowheader", name="logs.all")).to_be_visible()
    expect(page.get_by_role("link", name=re.compile("Add|Define|Issue"))).to_have_count(0)
