"""Middleware for people: sessions, and what the admin adds to its pages: what they may load, how long they may wait.

Calls have access tokens and pass by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.deprecation import MiddlewareMixin
from simple_history.middleware import HistoryRequestMiddleware

from config.deadlines import answer_within

# As in `config.urls`: to ask Django for the address takes longer than all the rest of a middleware.
_ADMIN: Final = "/admin/"
LOGIN: Final = "/admin/login/"


def is_admin(request: HttpRequest) -> bool:
    """Tell whether the request is for a page of the admin."""
    return request.path_info.startswith(_ADMIN)


# --- Sessions ---------------------------------------------------------------------------------------------------------
# The admin's session opens the OpenAPI document too.
_PATHS: Final = (_ADMIN, "/api/openapi.json")


class _ForPeople(MiddlewareMixin):
    """A mixin that passes on every request but those of the paths that know a session."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not request.path_info.startswith(_PATHS):
            return cast(HttpResponseBase, self.get_response(request))
        return cast(HttpResponseBase, super().__call__(request))


class ForPeopleSessions(_ForPeople, SessionMiddleware):
    """Django's."""


class ForPeopleAuthentication(_ForPeople, AuthenticationMiddleware):
    """Django's."""


class ForPeopleMessages(_ForPeople, MessageMiddleware):
    """Django's."""


def for_people_history(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Have the history name the person who changes something."""
    with_history = HistoryRequestMiddleware(get_response)
    return lambda request: (with_history if request.path_info.startswith(_PATHS) else get_response)(request)


# --- Content security -------------------------------------------------------------------------------------------------
# What the admin's pages may load and run: their own files, and nothing that was written into the page itself.
# 'unsafe-eval': the menus and tabs of django-unfold are Alpine expressions in attributes, which Alpine compiles. It
# admits no foreign script: inline scripts and handlers stay refused.
# data: images are the arrows and ticks in the style sheets of django-unfold and Ace.
ADMIN_POLICY: Final = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self' 'unsafe-eval'",
        "img-src 'self' data:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)


class ContentSecurityMiddleware:
    """Send the policy with everything below the admin's address, errors and redirects included."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        if is_admin(request):
            response["Content-Security-Policy"] = ADMIN_POLICY
        return response


# --- Patience ---------------------------------------------------------------------------------------------------------
PAGE_SECONDS: Final = 30.0
# A draft runs for five minutes at most; indexes of a log source with rows take time.
CHANGE_SECONDS: Final = 900.0
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class PatienceMiddleware:
    """Give each request below the admin's address a deadline for all its PostgreSQL queries.

    Reading a page and logging in have PAGE_SECONDS, any other change has CHANGE_SECONDS.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not is_admin(request):
            return self._get_response(request)
        is_quick = request.method in _READS or request.path_info == LOGIN
        with answer_within(PAGE_SECONDS if is_quick else CHANGE_SECONDS):
            return self._get_response(request)
