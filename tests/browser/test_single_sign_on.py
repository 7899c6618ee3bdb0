"""Logging in through a provider, as somebody sees it: its button, its page, the way back, and the refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Protocol
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.accessibility import severe
from tests.browser.conftest import PATIENCE_MILLISECONDS
from tests.browser.pictures import ARE_WANTED, FOLDER, HEIGHTS, NARROW, SCHEMES, WIDE, take_pictures
from tests.browser.site import PASSWORD, Site
from tests.browser.watching import Watch
from tests.live.identity_provider import SETTINGS, IdentityProvider
from tests.live.installation import free_port

BUTTON = "Log in with Example Login"


class OpenAt(Protocol):
    def __call__(self, address: str) -> Page:
        """Open a page as nobody."""


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider() as provider:
        yield provider


@pytest.fixture(scope="module")
def address(site: Site, provider: IdentityProvider) -> Iterator[str]:
    """A web server whose people may log in at the provider."""
    with site.installation.another_web(**provider.environment) as (_, port):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def address_without_provider(site: Site) -> Iterator[str]:
    """A web server whose people must log in at a provider that is gone."""
    gone = {"OIDC_ISSUER": f"http://127.0.0.1:{free_port()}", "OIDC_ONLY": "true", **SETTINGS}
    with site.installation.another_web(**gone) as (_, port):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def open_at(browser: Browser, provider: IdentityProvider) -> Iterator[OpenAt]:
    """Open pages; what `Watch` complains of fails the test, except on the provider's own pages."""
    watched: list[tuple[str, Watch]] = []
    with ExitStack() as stack:

        def open_one(address: str) -> Page:
            host = urlsplit(address).netloc
            context: BrowserContext = stack.enter_context(
                browser.new_context(viewport={"width": WIDE, "height": HEIGHTS[WIDE]})
            )
            # The provider's pages ask others for their looks.
            ours = {host, urlsplit(provider.issuer).netloc}
            context.route(lambda url: urlsplit(url).netloc not in ours, lambda route: route.abort())
            context.set_default_timeout(PATIENCE_MILLISECONDS)
            watched.append((f"http://{host}", Watch(context, host)))
            page = context.new_page()
            page.goto(address)
            return page

        yield open_one
    assert [text for host, watch in watched for text in watch.complaints if text.startswith(host)] == []


def authorize(page: Page, subject: str) -> None:
    page.get_by_placeholder("sub").fill(subject)
    page.get_by_role("button", name="Authorize").click()


def check_refusal(page: Page, name: str) -> None:
    """A refusal has no menu of its own for its scheme."""
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        page.evaluate(AXE_SCRIPT)
        assert page.evaluate("() => axe.run().then((report) => report.violations.map((each) => each.id))") == []
        for width in (WIDE, NARROW):
            page.set_viewport_size({"width": width, "height": HEIGHTS[width]})
            assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 1
            if ARE_WANTED:
                page.screenshot(path=FOLDER / f"{name}-{width}-{scheme}.png")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": WIDE, "height": HEIGHTS[WIDE]})


def test_an_editor_logs_in_and_out(open_at: OpenAt, address: str, provider: IdentityProvider) -> None:
    provider.add("anna-1", groups=["log-editors"], preferred_username="anna", given_name="Anna")
    page = open_at(f"{address}/admin/endpoints/endpoint/?q=logs.all")
    expect(page.get_by_role("link", name=BUTTON)).to_be_visible()
    expect(page.get_by_label("Password")).to_be_visible()
    take_pictures(page, "login-single-sign-on")
    assert severe(page) == []
    page.get_by_role("link", name=BUTTON).click()
    authorize(page, "anna-1")
    expect(page).to_have_url(f"{address}/admin/endpoints/endpoint/?q=logs.all")
    expect(page.get_by_role("link", name="Log explorer").first).to_be_visible()
    expect(page.get_by_role("link", name="Users")).to_have_count(0)
    page.get_by_role("button", name="anna").first.click()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="You are logged out")).to_be_visible()
    take_pictures(page, "logged-out")
    assert severe(page) == []
    page.get_by_role("link", name="Log out of single sign-on too").click()
    page.get_by_role("button").first.click()
    expect(page.get_by_role("link", name=BUTTON)).to_be_visible()


def test_somebody_without_a_role_is_told_which_groups_count_for_nothing(
    open_at: OpenAt, address: str, provider: IdentityProvider
) -> None:
    provider.add("bert-2", groups=["sales", "everybody"])
    page = open_at(f"{address}/admin/")
    page.get_by_role("link", name=BUTTON).click()
    authorize(page, "bert-2")
    expect(page.get_by_role("heading", name="You have no role here")).to_be_visible()
    expect(page.get_by_text("Your groups: everybody, sales.")).to_be_visible()
    check_refusal(page, "no-role")


def test_a_login_that_is_cancelled_can_be_begun_again(
    open_at: OpenAt, address: str, provider: IdentityProvider
) -> None:
    provider.add("anna-1", groups=["log-editors"], preferred_username="anna")
    page = open_at(f"{address}/admin/")
    page.get_by_role("link", name=BUTTON).click()
    page.get_by_role("button", name="Deny").click()
    expect(page.get_by_role("heading", name="This login could not be checked")).to_be_visible()
    check_refusal(page, "login-not-checked")
    page.get_by_role("link", name=f"{BUTTON} again").click()
    authorize(page, "anna-1")
    expect(page.get_by_role("link", name="Log explorer").first).to_be_visible()


def test_a_superuser_comes_in_by_password_while_the_provider_is_gone(
    open_at: OpenAt, address_without_provider: str, site: Site, log_in: Callable[[Page, str], None]
) -> None:
    page = open_at(f"{address_without_provider}/admin/")
    expect(page.get_by_label("Password")).to_be_hidden()
    take_pictures(page, "login-single-sign-on-only")
    page.get_by_role("link", name=BUTTON).click()
    expect(page.get_by_role("heading", name="Example Login does not respond")).to_be_visible()
    check_refusal(page, "provider-gone")
    page.get_by_role("link", name="Log in with a password").click()
    page.get_by_text("Log in with a password").click()
    page.get_by_label("Username").fill("owner")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("Please enter the correct username and password")).to_be_visible()
    expect(page.get_by_label("Password")).to_be_visible()
    take_pictures(page, "login-single-sign-on-only-refused")
    assert severe(page) == []
    site.console.do("create_superuser", name="root", password=PASSWORD)
    log_in(page, "root")
    expect(page.get_by_role("link", name="Users").first).to_be_visible()
