"""The log explorer: a page over one log source, and the JSON that its script asks for.

Addresses, below ``/admin/logs/``; as URL names ``log_explorer`` and ``log_explorer_<word>``::

    GET               the page; ?source=, project=, lql=, range=, start=, end=, redact= fill it in
    GET  fields/      ?source= -> {"columns": [{"name": text, "type": text}, …], "paths": [{"path": text, "type": text,
                      "rows": n}, …], "sampled_rows": n, "projects": [text, …], "newest": time or null}; only columns
                      for those who may not see every project, and while the log database does not answer
    POST rows/        {EXPLORATION, "mark": null or MARK, "run_id": RUN_ID}
                      -> {"result_json": text, "row_count": n (shown), "more": boolean, "seconds": x}
    POST histogram/   {EXPLORATION, "run_id": RUN_ID}
                      -> {"aggregate": "count", "period": "minute", "bars": [[start, end, digits or null], …]}
    POST tail/        {EXPLORATION, "page_token": text}
                      -> {"result_json": text, "row_count": n}; see `explorer_tail`
    POST filter/      {"lql": text, "path": [key, …], "value": VALUE, "negated": boolean} -> {"lql": text}
    POST cancel/      {"run_id": RUN_ID} -> {"cancelled": true}
    more              see `explorer_counts`, `explorer_downloads`, `explorer_searches`

    EXPLORATION = "source": text, "project": text ("" for every project), "start": time, "end": time, "lql": text,
                  "redact": boolean
    MARK = {"timestamp": time, "id": text, "rows": n}
    VALUE = {"kind": "text" | "number" | "boolean" | "null", "text": text}
    digits = text: JavaScript's numbers have too few
    RUN_ID as in `draft_views`; failures as in `json_views`, for one part of the exploration with details [{"field": …}]

The mark is where the rows shown so far end: `rows` of them have its timestamp and id and come again; id, project and
timestamp identify them.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, TypeVar

import structlog
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.timezone import now

from endpoints.admin.draft_json import Json, Malformed, read_run_id
from endpoints.admin.draft_views import PERMISSION
from endpoints.admin.json_views import Refusal, own_run_id, read_body
from endpoints.calling import calls
from endpoints.defining.drafts import cancel_draft_run
from endpoints.exploring.counts import MAX_SEVERITY_ROWS
from endpoints.exploring.downloads import MAX_DOWNLOAD_ROWS, download_formats
from endpoints.exploring.exploring import (
    MAX_DAYS,
    Exploration,
    InvalidExploration,
    Mark,
    explore_histogram,
    explore_rows,
    explored_sources,
)
from endpoints.exploring.queryable_names import source_fields
from endpoints.lql.counting import LEVELS_BY_SEVERITY
from endpoints.lql.rules import LEVELS
from endpoints.lql.writing import NotFilterable, WrittenNumber, add_filter
from logsources.introspection import SAMPLE_ROWS
from logsources.moments import read_moment


# --- Exploration json -------------------------------------------------------------------------------------------------
# What the log explorer's script sends, read from JSON; each function raises Malformed for anything else.
def read_exploration(body: Json) -> Exploration:
    return Exploration(
        source=read_text(body, "source"),
        project=read_text(body, "project").strip() or None,
        start=_time(body, "start"),
        end=_time(body, "end"),
        lql=read_text(body, "lql"),
        redact=read_flag(body, "redact"),
    )


def read_mark(body: Json) -> Mark | None:
    mark = body.get("mark")
    if mark is None:
        return None
    if not isinstance(mark, dict):
        mark = {}
    row_id, rows = mark.get("id"), mark.get("rows")
    if not isinstance(row_id, str) or not isinstance(rows, int) or isinstance(rows, bool) or rows < 0:
        raise Malformed("mark must be null, or a timestamp and an id with a number of rows.")
    return Mark(_time(mark, "timestamp"), row_id, rows)


def read_path(body: Json) -> list[str]:
    keys = body.get("path")
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise Malformed("path must be a list of texts.")
    return keys


def read_value(body: Json) -> object:
    """Return the value to filter by, as `add_filter` takes it. Raises NotFilterable too."""
    value = body.get("value")
    if not isinstance(value, dict):
        raise Malformed("value must be an object.")
    match read_text(value, "kind"):
        case "text":
            return read_text(value, "text")
        case "number":
            return WrittenNumber(read_text(value, "text"))
        case "boolean":
            return read_text(value, "text") == "true"
        case "null":
            return None
        case _:
            raise Malformed("value.kind must be text, number, boolean or null.")


def read_text(body: Json, name: str) -> str:
    value = body.get(name, "")
    if not isinstance(value, str):
        raise Malformed(f"{name} must be a text.")
    return value


def read_flag(body: Json, name: str) -> bool:
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise Malformed(f"{name} must be true or false.")
    return value


def _time(body: Json, name: str) -> datetime:
    try:
        moment = read_moment(read_text(body, name))
    except ValueError as error:
        raise Malformed(f"{name} must be a time in ISO 8601.") from error
    if not 1 < moment.year < 9999:  # so that a zone, or a step further, still has a date
        raise Malformed(f"{name} must be in the years 2 to 9998.")
    return moment


# --- Explorer ---------------------------------------------------------------------------------------------------------
Result = TypeVar("Result")
VIEW_PERMISSION: Final = "logsources.view_logsource"
# Rows of every project are for people who may write an endpoint that reads them.
EVERY_PROJECT_PERMISSIONS: Final = ("endpoints.add_endpoint", "endpoints.change_endpoint")

# What the page's script asks for, by the names of the addresses.
ADDRESSES: Final = (
    "fields", "rows", "tail", "histogram", "filter", "cancel", "values", "severities", "notes", "download",
    "searches", "save_search", "delete_search",
)  # fmt: skip

logger = structlog.get_logger(__name__)


def may_explore(request: HttpRequest) -> bool:
    """Return whether this person may read log sources."""
    return request.user.has_perm(PERMISSION) and request.user.has_perm(VIEW_PERMISSION)


def explorer_page(request: HttpRequest) -> HttpResponse:
    """Show the page; refuses the same people as its addresses."""
    if not may_explore(request):
        raise PermissionDenied
    may_add = request.user.has_perm("endpoints.add_endpoint")
    sources = explored_sources()
    context = {
        **admin.site.each_context(request),
        "title": "Log explorer",
        "sources": sources,
        "explorer": {
            "sources": [source.name for source in sources],
            "every_project": sees_every_project(request),
            "addresses": {word: reverse(f"log_explorer_{word}") for word in ADDRESSES},
            "add_address": reverse("admin:endpoints_endpoint_add") if may_add else None,
            "max_days": MAX_DAYS,
            "levels": list(LEVELS),
            "severities": {severity: list(levels) for severity, levels in LEVELS_BY_SEVERITY.items()},
            "max_severity_rows": MAX_SEVERITY_ROWS,
            "formats": list(download_formats()),
            "max_download_rows": MAX_DOWNLOAD_ROWS,
            "now": now().isoformat(timespec="milliseconds"),
        },
    }
    return render(request, "endpoints/log_explorer.html", context)


def for_operators(handler: Callable[[HttpRequest], Result]) -> Callable[[HttpRequest], Result]:
    """Return the handler for those who may read log sources. It raises Refusal for others."""

    def checked(request: HttpRequest) -> Result:
        if not admin.site.has_permission(request):
            raise Refusal(401, "not_logged_in", "Your session is over. Log in again in another tab; the query stays.")
        if not may_explore(request):
            raise Refusal(403, "not_permitted", "Your role may not read log sources.")
        return handler(request)

    return checked


def sees_every_project(request: HttpRequest) -> bool:
    """Tell whether this person may read rows of every project."""
    return any(request.user.has_perm(permission) for permission in EVERY_PROJECT_PERMISSIONS)


def fields(request: HttpRequest) -> Json:
    """Answer with the names that a query can use."""
    try:
        found = source_fields(request.GET.get("source", ""), every_project=sees_every_project(request))
    except InvalidExploration as error:
        raise invalid_exploration(error) from error
    return {
        "columns": [{"name": column.name, "type": column.type} for column in found.columns],
        "paths": [{"path": path.path, "type": path.type, "rows": path.rows} for path in found.paths],
        "sampled_rows": SAMPLE_ROWS,
        "projects": list(found.projects),
        "newest": found.newest.isoformat() if found.newest else None,
    }


def rows(request: HttpRequest) -> Json:
    """Answer with a page of rows."""
    body = read_body(request)
    exploration, run_id = checked_exploration(request, body), own_run_id(request, read_run_id(body))
    try:
        run = explore_rows(exploration, mark=read_mark(body), run_id=run_id)
    except InvalidExploration as error:
        raise invalid_exploration(error) from error
    note_exploration(request, exploration, rows=run.row_count, database_seconds=run.database_seconds)
    return {
        "result_json": run.body.decode(),
        "row_count": run.shown_rows,
        "more": run.truncated or run.shown_rows < run.row_count,
        "seconds": run.seconds,
    }


def histogram(request: HttpRequest) -> Json:
    """Answer with the bars of the range."""
    body = read_body(request)
    exploration, run_id = checked_exploration(request, body), own_run_id(request, read_run_id(body))
    try:
        histogram = explore_histogram(exploration, run_id=run_id)
    except InvalidExploration as error:
        raise invalid_exploration(error) from error
    return {
        "aggregate": histogram.aggregate,
        "period": histogram.period,
        "bars": [[bar.start.isoformat(), bar.end.isoformat(), bar.value] for bar in histogram.bars],
    }


def filter_query(request: HttpRequest) -> Json:
    """Answer with the query and one filter more."""
    body = read_body(request)
    try:
        lql = add_filter(read_text(body, "lql"), read_path(body), read_value(body), negated=read_flag(body, "negated"))
    except NotFilterable as error:
        raise Refusal(400, "not_filterable", str(error)) from error
    return {"lql": lql}


def cancel(request: HttpRequest) -> Json:
    """Cancel a run of this person."""
    if not cancel_draft_run(own_run_id(request, read_run_id(read_body(request)))):
        raise Refusal(404, "run_not_found", "You have no run with this id, or it is over.")
    return {"cancelled": True}


def checked_exploration(request: HttpRequest, body: Json) -> Exploration:
    """Return the exploration. Raises Malformed, and Refusal if this person must name a project."""
    exploration = read_exploration(body)
    if exploration.project is None and not sees_every_project(request):
        raise invalid_exploration(
            InvalidExploration("project", "Name a project: your role may not read rows of all projects.")
        )
    return exploration


def invalid_exploration(error: InvalidExploration) -> Refusal:
    """Return the answer for a part of the exploration that is wrong."""
    return Refusal(400, "invalid_exploration", error.message, details=[{"field": error.field}])


def note_exploration(request: HttpRequest, exploration: Exploration, **facts: Any) -> None:
    """Log who read what: an operator may read rows of every project."""
    logger.info(
        "logs_explored",
        user=request.user.get_username(),
        log_source=exploration.source,
        every_project=exploration.project is None,
        **facts,
    )
    calls.note_log_access(
        "explorer",
        exploration.source,
        caller=(request.user.get_username(), ""),
        rows=facts.get("rows", 0),
        seconds=facts.get("database_seconds", 0.0),
        names=[name for name in ("project", "lql") if getattr(exploration, name)],
    )
