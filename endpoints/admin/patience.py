"""How long a page of the admin may wait for PostgreSQL: a server that hangs holds its thread no longer.

Calls of the API have deadlines of their own at each place where they wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from config.deadlines import answer_within

PAGE_SECONDS: Final = 30.0
# A draft runs for five minutes at most; indexes of a log source that holds rows take their time.
CHANGE_SECONDS: Final = 900.0
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class PatienceMiddleware:
    """Give each request below the admin's address a deadline for all that it asks PostgreSQL.

    Reading a page and logging in have PAGE_SECONDS, any other change has CHANGE_SECONDS.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not request.path.startswith(reverse("admin:index")):
            return self._get_response(request)
        is_quick = request.method in _READS or request.path == reverse("admin:login")
        with answer_within(PAGE_SECONDS if is_quick else CHANGE_SECONDS):
            return self._get_response(request)
