"""What one page shows once: nothing of it lies anywhere in clear text, and neither half opens without the other."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from django.utils import timezone

from endpoints.admin import shown_once
from endpoints.admin.shown_once import COOKIE, SECONDS, forget, hand_over, take

PAGE, TEXT = "/admin/endpoints/accesstoken/7/secret/", "lqe_0123456789ab_süß"


def request_for(page: str, session: dict[str, Any], cookie: str = "") -> HttpRequest:
    request = RequestFactory().get(page)
    request.session = session  # type: ignore[assignment]  # as far as the module uses it
    if cookie:
        request.COOKIES[COOKIE] = cookie
    return request


def handed_over(
    page: str = PAGE, text: str = TEXT, session: dict[str, Any] | None = None
) -> tuple[dict[str, Any], Any]:
    """Hand a text over, and return the session and the cookie."""
    session = {} if session is None else session
    response = HttpResponse()
    hand_over(request_for("/add/", session), response, text, page=page)
    return json.loads(json.dumps(session)), response.cookies[COOKIE]


def test_it_is_shown_once() -> None:
    session, cookie = handed_over()
    assert take(request_for(PAGE, session, cookie.value)) == TEXT
    assert take(request_for(PAGE, session, cookie.value)) is None
    assert session == {COOKIE: {}}


def test_neither_half_has_the_text() -> None:
    session, cookie = handed_over()
    for half in (str(session), cookie.value):
        assert "lqe_" not in half
    assert take(request_for(PAGE, {}, cookie.value)) is None
    assert take(request_for(PAGE, session)) is None


def test_two_texts_alike_do_not_look_alike() -> None:
    assert handed_over()[1].value != handed_over()[1].value


def test_the_cookie_goes_to_its_page_alone_and_no_script_reads_it(settings: Any) -> None:
    settings.SESSION_COOKIE_SECURE = True
    _, cookie = handed_over()
    assert {name: cookie[name] for name in ("path", "httponly", "samesite", "secure", "max-age")} == {
        "path": PAGE, "httponly": True, "samesite": "Strict", "secure": True, "max-age": SECONDS,
    }  # fmt: skip


def test_the_browser_is_told_to_drop_the_cookie() -> None:
    response = HttpResponse()
    forget(request_for(PAGE, {}), response)
    assert (response.cookies[COOKIE]["path"], response.cookies[COOKIE]["max-age"]) == (PAGE, 0)


@pytest.mark.parametrize("cookie", ["", "x", "é", "A" * 16, "A" * 200, "===="])
def test_a_cookie_that_is_none_of_ours_shows_nothing_and_uses_up_the_time(cookie: str) -> None:
    session, own = handed_over()
    assert take(request_for(PAGE, session, cookie)) is None
    assert take(request_for(PAGE, session, own.value)) is None


def test_the_halves_of_two_pages_do_not_fit() -> None:
    session, first = handed_over()
    session, second = handed_over(page="/another/", session=session)
    assert take(request_for(PAGE, dict(session), second.value)) is None
    assert take(request_for(PAGE, session, first.value)) == TEXT
    assert take(request_for("/another/", session, second.value)) == TEXT


@pytest.mark.parametrize(("seconds", "shown"), [(SECONDS - 1, TEXT), (SECONDS, None)])
def test_it_waits_two_minutes(monkeypatch: pytest.MonkeyPatch, seconds: int, shown: str | None) -> None:
    now = timezone.now()
    monkeypatch.setattr(shown_once.timezone, "now", lambda: now)
    session, cookie = handed_over()
    monkeypatch.setattr(shown_once.timezone, "now", lambda: now + timedelta(seconds=seconds))
    assert take(request_for(PAGE, session, cookie.value)) == shown


def test_keys_that_nobody_asked_for_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    session, _ = handed_over()
    later = timezone.now() + timedelta(seconds=SECONDS + 1)
    monkeypatch.setattr(shown_once.timezone, "now", lambda: later)
    session, _ = handed_over(page="/another/", session=session)
    assert list(session[COOKIE]) == ["/another/"]
