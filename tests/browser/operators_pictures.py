"""The pictures of docs/operators.md, made anew: `python -m tests.browser.operators_pictures`, two minutes.

They show an installation of its own with generated rows. The secret and the port are replaced by made-up ones, so
nothing in a picture opens anything. Pages are 1280 px wide; a picture above 120 kB fails.
"""

from __future__ import annotations

import re
from typing import Final

from playwright.sync_api import Page, expect, sync_playwright

from tests.browser.conftest import ARGUMENTS, CHROMIUM, PATIENCE_MILLISECONDS
from tests.browser.editing import argument, wait_until_checked
from tests.browser.operators_path import DOCUMENT, NAME, TENANT, Operator, section, sql_in
from tests.browser.palettes import reduce_colours
from tests.browser.pictures import WIDE, settle
from tests.browser.site import PASSWORD, Site
from tests.live.calls import until
from tests.live.installation import Installation

FOLDER: Final = DOCUMENT.parent / "pictures"
MOST_BYTES: Final = 120_000
MENU: Final = 288  # pixels of its width
ROWS: Final = 20_000
MADE_UP_SECRET: Final = "lqe_0123456789ab_made-up-for-this-picture-0123456789abcdefgh"
ANOTHER_SPAN: Final = ("'1 day'", "'2 days'")

_REPLACE = """([found, instead]) => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let text = texts.nextNode(); text; text = texts.nextNode())
        text.data = text.data.replace(new RegExp(found, "g"), instead);
}"""


def take(page: Page, name: str, *, height: int, left: int = 0, top: int = 0) -> None:
    """Take the visible part of the page, as it is scrolled: what is right of `left` and `height` pixels below `top`."""
    page.evaluate(_REPLACE, [r"127\.0\.0\.1:\d+", "127.0.0.1:8000"])
    page.evaluate(_REPLACE, [r"lqe_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", MADE_UP_SECRET])
    page.evaluate(_REPLACE, ["^drills$", "All projects"])
    settle(page)
    picture = reduce_colours(page.screenshot(clip={"x": left, "y": top, "width": WIDE - left, "height": height}))
    path = FOLDER / f"{name}.png"
    path.write_bytes(picture)
    print(f"{path.relative_to(DOCUMENT.parent)}: {len(picture):,} bytes")  # noqa: T201  # the command's own output
    if len(picture) > MOST_BYTES:
        raise SystemExit(f"{name} has more than {MOST_BYTES:,} bytes: show less of the page.")


def window(page: Page, *, height: int) -> None:
    page.set_viewport_size({"width": WIDE, "height": height})


def picture_the_path(page: Page, site: Site) -> None:
    operator = Operator(page)
    page.goto("/admin/")
    operator.log_in("owner", PASSWORD)
    operator.write(sql_in(section()))
    operator.try_it()
    operator.draw()
    window(page, height=1450)
    # It grows with the window; in one of usual height, which the picture does not fit into, it is as high as this.
    page.locator(".django-ace-widget").evaluate("(editor) => { editor.style.height = '14rem'; }")
    page.evaluate("window.scrollTo(0, 0)")
    take(page, "try-it", height=1010, left=MENU, top=235)
    operator.protect()
    window(page, height=900)
    operator.save()
    operator.issue()
    take(page, "access-token", height=460)
    secret = site.console.do("issue", name="Acme dashboard", bound_arguments={"project": TENANT})
    with site.installation.caller(secret=secret) as acme, site.installation.caller() as all_projects:
        for _ in range(6):
            acme.query(NAME, {"project": TENANT})
            acme.query("logs.all", {"project": TENANT})
            all_projects.query("usage.api-counts", {"interval": "hourly", "project": TENANT})
        all_projects.query(NAME)  # refused: the argument is required


def picture_the_plan(page: Page) -> None:
    page.goto("/admin/endpoints/endpoint/")
    page.get_by_role("link", name=NAME, exact=True).click()
    wait_until_checked(page, "it can be saved.")
    argument(page, "project").fill(TENANT)
    page.get_by_role("button", name="Explain").click()
    plan = page.get_by_role("tabpanel", name="Plan")
    expect(plan).to_contain_text("partitions touched")
    plan.locator("summary").first.click()
    window(page, height=900)
    page.get_by_role("tablist", name="Views of the result").evaluate("(tabs) => tabs.scrollIntoView()")
    page.evaluate("window.scrollBy(0, -80)")
    take(page, "plan", height=835)


def picture_history(page: Page, site: Site) -> None:
    sql = sql_in(section())
    changed = {"sql": sql.replace(*ANOTHER_SPAN), "max_rows": 500, "tenant_parameter": "project"}
    site.console.do("save", name=NAME, parameters={"project": "text"}, settings=changed)
    page.goto("/admin/endpoints/endpoint/")
    page.get_by_role("link", name=NAME, exact=True).click()
    page.get_by_role("link", name=re.compile("History")).click()
    page.get_by_role("link", name="version 1", exact=True).click()
    page.get_by_role("link", name="Compare with the latest version").click()
    expect(page.get_by_role("button", name="Restore as version 3")).to_be_visible()
    take(page, "version", height=520)


def is_lively(page: Page) -> bool:
    """Whether the dashboard shows calls, and a worker and beat that have run: beat sends something every minute."""
    page.goto("/admin/")
    row = page.get_by_role("row").filter(has_text=NAME)
    return "no calls" not in row.inner_text() and page.get_by_text("Everything is running.").count() == 1


def picture_reading_pages(page: Page) -> None:
    until(lambda: is_lively(page), seconds=150, pause=2)
    take(page, "dashboard", height=770)
    page.get_by_role("row").filter(has_text=NAME).get_by_role("link", name="Usage").click()
    expect(page.get_by_role("heading", name="Who may call it")).to_be_visible()
    take(page, "usage", height=900)
    page.goto("/admin/logs/?source=edge_logs&project=acme&range=24h")
    rows = page.get_by_role("region", name=re.compile("newest first"))
    expect(rows.get_by_role("listitem").first).to_be_visible()
    expect(page.get_by_role("button", name="Cancel")).to_be_hidden()
    expect(page.get_by_role("list", name="Severities")).not_to_be_empty()
    take(page, "log-explorer", height=760)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with (
        Installation(rows=ROWS) as installation,
        installation.worker(),
        installation.beat(),
        sync_playwright() as playwright,
    ):
        site = Site(installation)
        expect.set_options(timeout=PATIENCE_MILLISECONDS)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page(base_url=site.url, viewport={"width": WIDE, "height": 900})
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        picture_the_path(page, site)
        picture_the_plan(page)
        picture_history(page, site)
        picture_reading_pages(page)
        browser.close()


if __name__ == "__main__":
    main()
