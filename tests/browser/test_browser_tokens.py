"""A page of another site calls with a browser token: as far as its key and its token allow, and no further."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.conftest import PATIENCE_MILLISECONDS
from tests.browser.site import Site
from tests.files import PROJECT
from tests.live.calls import Caller, until

PAGE = b"<!doctype html><title>Dashboard</title><p>A page of another site</p>"
# As in docs/access-tokens.md; a fetch that the browser refuses to a page is a TypeError.
FETCH = """async ([address, headers]) => {
    try {
        const answer = await fetch(address, {headers});
        return {status: answer.status, body: await answer.json(), cache: answer.headers.get("X-Cache")};
    } catch (error) {
        return {refused: error.name};
    }
}"""


class Elsewhere(ThreadingHTTPServer):
    """The web server of another site: its page, and its backend that hands tokens to the page."""

    daemon_threads = True
    page = PAGE
    tokens: Iterator[str] = iter(())


class Pages(BaseHTTPRequestHandler):
    server: Elsewhere

    def do_GET(self) -> None:
        is_backend = self.path.startswith("/my-backend/")
        self.send_response(200)
        self.send_header("Content-Type", "application/json" if is_backend else "text/html")
        self.end_headers()
        self.wfile.write(json.dumps({"token": next(self.server.tokens)}).encode() if is_backend else self.server.page)

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@pytest.fixture(scope="module")
def other_site() -> Iterator[Elsewhere]:
    server = Elsewhere(("127.0.0.1", 0), Pages)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def elsewhere(other_site: Elsewhere) -> int:
    """The port of another web server; by two host names it is two origins."""
    return int(other_site.server_port)


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[[str], Page]]:
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MILLISECONDS)

    def open_at(address: str) -> Page:
        page = context.new_page()
        page.goto(address)
        return page

    yield open_at
    context.close()


def issue(site: Site, secret: str, **body: Any) -> str:
    with Caller(site.installation.port, secret) as caller:
        sent = json.dumps(body).encode()
        answer = caller.request("POST", "/api/tokens", body=sent, Content_Type="application/json")
    assert answer.status == 200, answer.body
    return str(json.loads(answer.body)["result"][0]["token"])


@pytest.mark.parametrize("header", ["Authorization", "X-API-KEY"])
def test_a_page_of_an_allowed_origin_gets_its_rows_and_no_others(
    site: Site, visit: Callable[[str], Page], elsewhere: int, header: str
) -> None:
    origins = [f"http://127.0.0.1:{elsewhere}"]
    secret = site.console.do("issue", name=f"backend {header}", may_issue=True, allowed_origins=origins)
    token = issue(site, secret, endpoints=["logs.all"], arguments={"project": "acme"})
    headers = {header: f"Bearer {token}" if header == "Authorization" else token}
    address = f"{site.url}/api/endpoints/query/logs.all"

    page = visit(f"http://127.0.0.1:{elsewhere}/")
    answer = page.evaluate(FETCH, [address, headers])
    assert (answer["status"], answer["cache"]) == (200, "bypass")
    assert answer["body"]["result"]
    other = page.evaluate(FETCH, [f"{address}?project=globex", headers])
    assert (other["status"], other["body"]["error"]["code"]) == (403, "argument_not_allowed")
    assert page.evaluate(FETCH, [f"{site.url}/api/endpoints/query/usage.api-counts", headers])["status"] == 404
    assert page.evaluate(FETCH, [f"{site.url}/api/openapi.json", headers]) == {"refused": "TypeError"}

    # The same server under another name is another origin.
    stranger = visit(f"http://localhost:{elsewhere}/")
    assert stranger.evaluate(FETCH, [address, headers]) == {"refused": "TypeError"}

    # Revoked, the page can still read why.
    site.console.do("revoke", name=f"backend {header}")
    assert page.evaluate(FETCH, [address, headers])["status"] == 401


def test_a_page_cannot_use_a_token_of_another_issuer(site: Site, visit: Callable[[str], Page], elsewhere: int) -> None:
    secrets = [
        site.console.do("issue", name=f"for {host}", may_issue=True, allowed_origins=[f"http://{host}:{elsewhere}"])
        for host in ("127.0.0.1", "localhost")
    ]
    of_other = {"X-API-KEY": issue(site, secrets[1], endpoints=["logs.all"], arguments={"project": "acme"})}
    address = f"{site.url}/api/endpoints/query/logs.all"
    assert visit(f"http://localhost:{elsewhere}/").evaluate(FETCH, [address, of_other])["status"] == 200
    # The preflight passes, for the origin has an issuer; the answer stays with the browser.
    page = visit(f"http://127.0.0.1:{elsewhere}/")
    assert page.evaluate(FETCH, [address, of_other]) == {"refused": "TypeError"}


def test_the_page_of_the_docs_asks_for_another_token_when_one_has_expired(
    site: Site, browser: Browser, other_site: Elsewhere
) -> None:
    origin = f"http://127.0.0.1:{other_site.server_port}"
    secret = site.console.do("issue", name="shop-backend", may_issue=True, allowed_origins=[origin])
    body = {"endpoints": ["logs.all"], "arguments": {"project": "acme"}}
    expired = issue(site, secret, expires_in=1, **body)
    until(lambda: _status(site, expired) == 401, seconds=30)
    other_site.tokens = iter([expired, issue(site, secret, **body)])
    (script,) = re.findall(r"(?s)<script.*?</script>", (PROJECT / "docs" / "access-tokens.md").read_text())
    assert "https://logs.example.org" in script
    other_site.page = PAGE + script.replace("https://logs.example.org", site.url).encode()
    context = browser.new_context()
    page = context.new_page()
    try:
        with page.expect_console_message(lambda said: said.type == "table", timeout=PATIENCE_MILLISECONDS):
            page.goto(f"{origin}/")
        assert next(other_site.tokens, None) is None, "it has asked twice"
    finally:
        context.close()
        other_site.page = PAGE


def _status(site: Site, token: str) -> int:
    with Caller(site.installation.port, token) as caller:
        return caller.query("logs.all").status
