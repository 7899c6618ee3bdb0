"""The pages "no permission" and "not found" for somebody who is logged in: with the menu, so that they can go on.

Everybody else, and everything that goes wrong, gets the plain pages 403.html and 404.html, which need no database.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from endpoints.admin.middleware import is_admin

_PAGES: Final[dict[type[Exception], tuple[int, str]]] = {
    PermissionDenied: (403, "endpoints/no_permission.html"),
    Http404: (404, "endpoints/not_found.html"),
}


class RefusalPagesMiddleware:
    """Answers Http404 and PermissionDenied of the admin's views; after the middleware that knows the person."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        page = next((page for kind, page in _PAGES.items() if isinstance(exception, kind)), None)
        if page is None or not is_admin(request) or not admin.site.has_permission(request):
            return None
        status, template = page
        return render(request, template, admin.site.each_context(request), status=status)
