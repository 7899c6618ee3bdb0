"""A browser before a running installation: pages of a logged-in operator that may not misbehave."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, expect, sync_playwright

from tests.browser.accessibility import severe
from tests.browser.pictures import HEIGHTS, WIDE
from tests.browser.site import PASSWORD, Site
from tests.browser.watching import Watch
from tests.live.installation import Installation
from tests.live.processes import children, command_line

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
LONGEST_TEST_SECONDS = 300
PATIENCE_MILLISECONDS = 20_000  # for the machine, not for the page


class OpenPage(Protocol):
    def __call__(
        self, path: str = "/admin/", *, role: str | None = "owner", width: int = WIDE, dark: bool = False
    ) -> Page:
        """Open a page of the installation as somebody with this role, or as nobody."""


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    with Installation() as installation:
        yield Site(installation)


# Not for the whole session: while Playwright's loop runs in this thread, Django refuses other tests their database.
@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    expect.set_options(timeout=PATIENCE_MILLISECONDS)
    with sync_playwright() as playwright:
        yield playwright


class SharedBrowser:
    """One Chromium for the tests of a module, which each have pages and cookies of their own; made anew if killed."""

    def __init__(self, playwright: Playwright) -> None:
        self._playwright = playwright
        self._browser: Browser | None = None

    def get(self) -> Browser:
        if self._browser is None or not self._browser.is_connected():
            self._browser = self._playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        return self._browser

    def close(self) -> None:
        if self._browser is not None:
            self._browser.close()


@pytest.fixture(scope="module")
def shared_browser(playwright: Playwright) -> Iterator[SharedBrowser]:
    browser = SharedBrowser(playwright)
    yield browser
    browser.close()


@pytest.fixture
def browser(shared_browser: SharedBrowser) -> Iterator[Browser]:
    """The module's browser, which is killed where the test hangs: scripts in a page may wait for ever."""
    watchdog = threading.Timer(LONGEST_TEST_SECONDS, kill_browsers)
    watchdog.daemon = True
    watchdog.start()
    yield shared_browser.get()
    watchdog.cancel()


def kill_browsers() -> None:
    """Kill every Chromium below this process; what waits for it then fails."""
    waiting = children(os.getpid())
    while waiting:
        process = waiting.pop()
        waiting += children(process)
        if CHROMIUM.name in " ".join(command_line(process)):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


@pytest.fixture
def open_page(browser: Browser, site: Site, request: pytest.FixtureRequest) -> Iterator[OpenPage]:
    """Open pages; at the end of the test none of them may have done what `Watch` complains of.

    A test with the mark `stopped_by_policy` expects only complaints that have its text.
    """
    stopped = request.node.get_closest_marker("stopped_by_policy")
    contexts: list[BrowserContext] = []
    watches: list[Watch] = []

    def open_one(path: str = "/admin/", *, role: str | None = "owner", width: int = WIDE, dark: bool = False) -> Page:
        context = browser.new_context(
            base_url=site.url,
            viewport={"width": width, "height": HEIGHTS[width]},
            color_scheme="dark" if dark else "light",
            permissions=["clipboard-read", "clipboard-write"],
            accept_downloads=True,
        )
        contexts.append(context)
        context.set_default_timeout(PATIENCE_MILLISECONDS)
        watches.append(Watch(context, urlsplit(site.url).netloc))
        if role is not None:
            context.add_cookies([site.session_cookie(role)])
        page = context.new_page()
        page.goto(path)
        return page

    yield open_one
    for context in contexts:
        context.close()
    complaints = [complaint for watch in watches for complaint in watch.complaints]
    assert [complaint for complaint in complaints if stopped is None or stopped.args[0] not in complaint] == []


@pytest.fixture
def log_in() -> Callable[[Page, str], None]:
    """Log in with the form that the page shows, as somebody with this role."""

    def fill(page: Page, role: str) -> None:
        page.get_by_label("Username").fill(role)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_label("Username")).to_have_count(0)

    return fill


@pytest.fixture
def check_accessibility() -> Callable[[Page], None]:
    def check(page: Page) -> None:
        found = severe(page)
        assert found == []

    return check
