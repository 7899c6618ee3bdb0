"""The watch over the pages complains of what it is there for: a page that misbehaves is noticed, another is not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route

from tests.browser.watching import Watch

HOST = "service.test"  # RFC 6761: nobody's; nothing of these tests leaves the browser
ELSEWHERE = "https://elsewhere.test/picture.png"
POLICY = "default-src 'self'; img-src 'self' data: https://elsewhere.test; connect-src 'self'"


class Show(Protocol):
    def __call__(self, body: str, script: str = "") -> Page: ...


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context()
    yield context
    context.close()


@pytest.fixture
def watch(context: BrowserContext) -> Watch:
    return Watch(context, HOST)


@pytest.fixture
def show(context: BrowserContext, watch: Watch) -> Show:
    """Show a page with this body; its script is `/page.js`."""

    def show(body: str, script: str = "") -> Page:
        def answer(route: Route) -> None:
            path = route.request.url.partition(HOST)[2]
            if route.request.url == ELSEWHERE or path == "/absent":
                route.fulfill(status=404)
            elif path == "/page.js":
                route.fulfill(body=script, content_type="text/javascript")
            else:
                page = f'<!doctype html><link rel="icon" href="data:,"><body>{body}<script src="/page.js"></script>'
                route.fulfill(body=page, content_type="text/html", headers={"Content-Security-Policy": POLICY})

        context.route("**/*", answer)
        page = context.new_page()
        page.goto(f"https://{HOST}/")
        page.wait_for_load_state("networkidle")
        return page

    return show


def test_a_page_that_behaves_is_not_complained_of(show: Show, watch: Watch) -> None:
    # A refusal of the own host is the page's business, and its message an answer like others.
    page = show("<h1>Fine</h1>", "void fetch('/absent'); console.log('as it should be')")
    page.evaluate("new Image().src = 'data:,'")
    assert watch.complaints == []


@pytest.mark.parametrize(
    ("body", "script", "complaint"),
    [
        pytest.param("<button onclick='go()'>Go</button>", "", "Content Security Policy", id="inline handler"),
        pytest.param("<p style='color: red'>Red</p>", "", "Content Security Policy", id="inline style"),
        pytest.param("<script>document.title = 1</script>", "", "Content Security Policy", id="inline script"),
        pytest.param(f"<img src='{ELSEWHERE}'>", "", f"a request to another host: {ELSEWHERE}", id="another host"),
        pytest.param("", "throw new Error('out of order')", "uncaught: out of order", id="uncaught"),
        pytest.param("", "Promise.reject(new Error('too late'))", "uncaught: too late", id="rejected"),
        pytest.param("", "console.error('it went wrong')", "console error: it went wrong", id="error"),
        pytest.param("", "console.warn('it may go wrong')", "console warning: it may go wrong", id="warning"),
    ],
)
def test_a_page_that_misbehaves_is(show: Show, watch: Watch, body: str, script: str, complaint: str) -> None:
    page = show(body, script)
    if "onclick" in body:
        page.get_by_role("button").click()
    assert any(complaint in one for one in watch.complaints), watch.complaints
