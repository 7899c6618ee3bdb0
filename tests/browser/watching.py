"""What no page may do: ask another host for anything, break the content security policy, write console errors."""

from __future__ import annotations

from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Request, WebError

# Answers that say "not like this" or "not now" are written to the console by the browser, whatever the script does.
_FAILED_REQUESTS = tuple(f"Failed to load resource: the server responded with a status of {code}" for code in (4, 503))
# Schemes that stay in the browser.
_LOCAL_SCHEMES = {"data", "blob", "about"}


class Watch:
    """Everything a browser context has seen that it should not have, in `complaints`."""

    def __init__(self, context: BrowserContext, host: str) -> None:
        self.complaints: list[str] = []
        self._host = host
        context.on("request", self._request)
        context.on("console", self._console)
        context.on("weberror", self._error)

    def _request(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme not in _LOCAL_SCHEMES and address.netloc != self._host:
            self.complaints.append(f"a request to another host: {request.url}")

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and not message.text.startswith(_FAILED_REQUESTS):
            self.complaints.append(f"{_address(message.page)}: console {message.type}: {message.text}")

    def _error(self, error: WebError) -> None:
        self.complaints.append(f"{_address(error.page)}: uncaught: {error.error}")


def _address(page: Page | None) -> str:
    return page.url if page else "a worker"
