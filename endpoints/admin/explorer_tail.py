"""The live rows of the log explorer, page by page.

    POST /admin/logs/tail/    {EXPLORATION, "page_token": text, "" for the first page}
                              -> {"result_json": text, "row_count": n}

EXPLORATION, and who may ask, as in `explorer`; its range does not count. The text is a page of a tail, `result` and
`next`. The first page has the rows of the last minute: those that the explorer shows may be among them.
"""

from __future__ import annotations

from django.http import HttpRequest

from endpoints.admin.draft_json import Json
from endpoints.admin.explorer import (
    checked_exploration,
    for_operators,
    invalid_exploration,
    note_exploration,
    read_text,
)
from endpoints.admin.json_views import json_view, read_body
from endpoints.exploring.exploring import InvalidExploration
from endpoints.exploring.tailing import explore_tail


def _tail(request: HttpRequest) -> Json:
    body = read_body(request)
    exploration = checked_exploration(request, body)
    try:
        outcome = explore_tail(exploration, page_token=read_text(body, "page_token"), whose=f"user-{request.user.pk}")
    except InvalidExploration as error:
        raise invalid_exploration(error) from error
    if outcome.row_count:
        note_exploration(request, exploration, rows=outcome.row_count, database_seconds=outcome.database_seconds)
    return {"result_json": outcome.body.decode(), "row_count": outcome.row_count}


tail_view = json_view("POST", for_operators(_tail))
