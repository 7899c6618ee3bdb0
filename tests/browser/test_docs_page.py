"""The page of the API: it asks for an access token, or takes the admin's session, and calls are tried from it."""

from __future__ import annotations

import re
from typing import Final

import pytest
from playwright.sync_api import Page, expect

from tests.browser.accessibility import severe
from tests.browser.conftest import OpenPage
from tests.browser.pictures import take_pictures
from tests.browser.site import Site

DOCS: Final = "/api/docs"
READY: Final = "#docs-operations[data-ready=true]"
# What axe finds in Swagger UI itself, which we take as it is: grey version labels and white on the colours of methods,
# the choice of a server without a name, buttons inside the summary of an operation.
OF_SWAGGER_UI: Final = frozenset({"color-contrast", "select-name", "nested-interactive"})


def type_secret(page: Page, secret: str) -> None:
    page.get_by_label("Access token").fill(secret)
    page.get_by_role("button", name="Show its operations").click()


def test_an_access_token_opens_its_operations_and_tries_them(open_page: OpenPage, site: Site) -> None:
    secret = site.console.do("issue", name="reader of the docs", endpoint_names=["logs.all"])
    page = open_page(DOCS, role=None)
    addresses: list[str] = []
    page.on("request", lambda request: addresses.append(request.url))
    type_secret(page, secret)
    expect(page.locator(READY)).to_be_visible()
    expect(page.locator(".opblock-summary-path", has_text="logs.all").first).to_be_visible()
    # Nothing of what this access token may not call.
    expect(page.locator(".opblock-summary-path", has_text="usage.api-counts")).to_have_count(0)
    page.locator(".opblock-get", has_text="logs.all").first.locator(".opblock-summary-control").click()
    page.get_by_role("button", name="Try it out").click()
    page.get_by_placeholder("project", exact=True).fill("acme")
    page.get_by_role("button", name="Execute").click()
    expect(page.locator(".live-responses-table .response-col_status").last).to_have_text(re.compile("^200"))
    # The secret goes in a header alone, and nothing keeps it.
    assert [address for address in addresses if secret in address] == []
    assert page.evaluate("() => JSON.stringify([{...localStorage}, {...sessionStorage}])") == "[{},{}]"


def test_a_wrong_access_token_is_told(open_page: OpenPage, site: Site) -> None:
    page = open_page(DOCS, role=None)
    type_secret(page, "no such secret")
    expect(page.get_by_role("status")).to_have_text("This access token is unknown, expired or revoked.")
    expect(page.get_by_label("Access token")).to_be_focused()
    type_secret(page, site.secret)
    expect(page.locator(READY)).to_be_visible()
    expect(page.get_by_label("Access token")).to_have_count(1)
    expect(page.locator("#docs-form")).to_be_hidden()


def test_a_session_of_the_admin_needs_no_access_token(open_page: OpenPage) -> None:
    page = open_page(DOCS, role="viewer")
    expect(page.locator(READY)).to_be_visible()
    expect(page.locator(".opblock-summary-path", has_text="usage.api-counts").first).to_be_visible()
    expect(page.locator("#docs-form")).to_be_hidden()


def test_an_address_cannot_bring_a_foreign_document(open_page: OpenPage) -> None:
    foreign = "https://elsewhere.example.org/openapi.json"
    page = open_page(f"{DOCS}?url={foreign}&configUrl={foreign}&spec=%7B%7D", role="viewer")
    expect(page.locator(READY)).to_be_visible()
    # `open_page` complains of every request to another host.
    expect(page.locator(".opblock-summary-path", has_text="logs.all").first).to_be_visible()


# Swagger UI reads a text as markup before it takes the markup out; Chromium tells since 156 that the policy stopped it.
@pytest.mark.stopped_by_policy("Executing inline event handler violates")
def test_texts_of_endpoints_are_no_markup(open_page: OpenPage, site: Site) -> None:
    broken = "document.title = 'broken in'"
    text = f'<img src=x onerror="{broken}"><script>{broken}</script> [x](javascript:alert(1))'
    site.installation.save("docs.markup", "SELECT 1 AS one", description=text)
    page = open_page(DOCS, role="owner")
    expect(page.locator(READY)).to_be_visible()
    page.locator(".opblock-get", has_text="docs.markup").first.locator(".opblock-summary-control").click()
    expect(page.get_by_role("button", name="Try it out")).to_be_visible()
    assert page.title() == "API | Log Query Endpoints"
    assert page.locator("[onerror], a[href^=javascript]").count() == 0


def test_it_looks_right_and_has_no_barrier_of_ours(open_page: OpenPage) -> None:
    asking = open_page(DOCS, role=None)
    expect(asking.get_by_label("Access token")).to_be_visible()
    take_pictures(asking, "docs-asking")
    assert severe(asking) == []
    page = open_page(DOCS, role="viewer")
    expect(page.locator(READY)).to_be_visible()
    take_pictures(page, "docs")
    found = {(line.split()[1], ".docs-" in line) for line in severe(page)}
    assert found == {(rule, False) for rule in OF_SWAGGER_UI}
