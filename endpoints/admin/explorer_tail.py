"""The live rows of the log explorer: a long poll, answered when rows come or the wait is over.

    POST /admin/logs/tail/    {EXPLORATION, "page_token": text, "" for the first page}
                              -> {"result_json": text, "row_count": n}

EXPLORATION, and who may ask, as in `explorer`; its range does not count. The text is a page of a tail, `result` and
`next`. The first page comes at once and has the rows of the last minute: those that the explorer shows may be among
them. Like every tail it holds no thread while it waits (endpoints.calling.waiting_room).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse

from config.deadlines import answer_within
from config.exchanges import LaterAnswer
from endpoints.access.token_limits import take_tail
from endpoints.admin.draft_json import Json
from endpoints.admin.explorer import (
    checked_exploration,
    for_operators,
    invalid_exploration,
    note_exploration,
    read_text,
)
from endpoints.admin.json_views import FAILURES, Refusal, failure_response, json_response, json_view, read_body
from endpoints.admin.middleware import PAGE_SECONDS
from endpoints.calling.tails import Page
from endpoints.calling.waiting_room import NotNow, Wish, waiting_room
from endpoints.errors import DatabaseUnavailable, EndpointError, Overloaded
from endpoints.exploring.exploring import InvalidExploration
from endpoints.exploring.tailing import explore_tail


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @classmethod
    def of(cls, response: HttpResponse) -> _Reply:
        return cls(response.status_code, dict(response.headers), response.content)


def _tail(request: HttpRequest) -> Json | LaterAnswer:
    body = read_body(request)
    room = waiting_room()
    since = room.moment
    page = _page(request, body)
    if page.outcome.row_count or not body.get("page_token") or settings.ENDPOINTS_TAIL_SECONDS <= 0:
        return _page_json(page)
    attempt = partial(_try_again, request, body)
    wish = Wish(attempt, names=page.names, since=since, seconds=settings.ENDPOINTS_TAIL_SECONDS)
    return room.answer_when(wish, partial(take_tail, _whose(request)))


tail_view = json_view("POST", for_operators(_tail))


def _page(request: HttpRequest, body: Json) -> Page:
    exploration = checked_exploration(request, body)
    try:
        page = explore_tail(
            exploration,
            page_token=read_text(body, "page_token"),
            whose=_whose(request),
            awaited=waiting_room().position,
        )
    except InvalidExploration as error:
        raise invalid_exploration(error) from error
    if page.outcome.row_count:
        outcome = page.outcome
        note_exploration(request, exploration, rows=outcome.row_count, database_seconds=outcome.database_seconds)
    return page


def _try_again(request: HttpRequest, body: Json, is_last: bool) -> _Reply | None:
    """Check and run everything anew: a person may lose a role, or the account, while the page waits."""
    try:
        with answer_within(PAGE_SECONDS):
            user = get_user_model().objects.filter(pk=request.user.pk or 0).first()
            if user is None:
                raise Refusal(401, "not_logged_in", "Your account is gone.")
            request.user = user
            page = for_operators(partial(_page, body=body))(request)
    except (Overloaded, DatabaseUnavailable, OperationalError, InterfaceError) as error:
        if not is_last:
            raise NotNow from error
        failure = error if isinstance(error, EndpointError) else DatabaseUnavailable()
        return _Reply.of(failure_response(request, failure))
    except FAILURES as error:
        return _Reply.of(failure_response(request, error))
    if not page.outcome.row_count and not is_last:
        return None
    return _Reply.of(json_response(_page_json(page)))


def _page_json(page: Page) -> Json:
    return {"result_json": page.outcome.body.decode(), "row_count": page.outcome.row_count}


def _whose(request: HttpRequest) -> str:
    return f"user-{request.user.pk}"
