"""Saved searches of the log explorer, as JSON; below ``/admin/logs/``. Each person has their own::

    GET  searches/         -> SEARCHES
    POST searches/save/    {"name": text, "query": text} -> SEARCHES; it takes the place of one with the same name
    POST searches/delete/  {"id": n} -> SEARCHES

    SEARCHES = {"searches": [{"id": n, "name": text, "query": text that begins with "?"}, …]}, by name

Failures, and who may ask, as in `explorer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from django.http import HttpRequest

from endpoints.admin.draft_json import Json, Malformed
from endpoints.admin.explorer import invalid_exploration, read_text
from endpoints.admin.json_views import Refusal, read_body
from endpoints.exploring.exploring import InvalidExploration
from endpoints.exploring.saved_searches import delete_search, save_search, saved_searches

if TYPE_CHECKING:
    from django.contrib.auth.models import User

_LARGEST_ID = 2**63 - 1


def searches(request: HttpRequest) -> Json:
    """Answer with the searches of this person."""
    found = saved_searches(_owner(request))
    return {"searches": [{"id": one.pk, "name": one.name, "query": f"?{one.query}"} for one in found]}


def save(request: HttpRequest) -> Json:
    """Save a search."""
    body = read_body(request)
    try:
        save_search(_owner(request), name=read_text(body, "name"), query=read_text(body, "query"))
    except InvalidExploration as error:
        raise invalid_exploration(error) from error
    return searches(request)


def delete(request: HttpRequest) -> Json:
    """Delete a search."""
    identifier = read_body(request).get("id")
    if not isinstance(identifier, int) or isinstance(identifier, bool) or not 0 < identifier <= _LARGEST_ID:
        raise Malformed("id must be the number of a saved search.")
    if not delete_search(_owner(request), identifier):
        raise Refusal(404, "search_not_found", "You have no saved search with this number.")
    return searches(request)


def _owner(request: HttpRequest) -> User:
    return cast("User", request.user)  # `for_operators` lets nobody else in
