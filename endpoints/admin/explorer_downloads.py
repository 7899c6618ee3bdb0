"""Rows of the log explorer as a file.

    POST /admin/logs/download/    {EXPLORATION, "format": "csv" | "ndjson" | "parquet", "rows": n, "run_id": RUN_ID}
                                  -> the file, named in Content-Disposition; X-Result-Rows has its number of rows,
                                     X-Result-Truncated says true if more rows match

EXPLORATION, RUN_ID, failures, and who may ask, as in `explorer`.
"""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.utils.timezone import now

from endpoints.admin.draft_json import Json, Malformed, read_run_id
from endpoints.admin.explorer import (
    checked_exploration,
    for_operators,
    invalid_exploration,
    note_exploration,
    read_text,
)
from endpoints.admin.json_views import FAILURES, Refusal, failure_response, own_run_id, read_body
from endpoints.exploring.downloads import explore_download
from endpoints.exploring.exploring import InvalidExploration
from endpoints.results.outcomes import ResultFormat

_TEXTS: Final = frozenset((ResultFormat.CSV, ResultFormat.NDJSON))


def download_view(request: HttpRequest) -> HttpResponse:
    """Answer with the file, or with a failure as JSON."""
    try:
        if request.method != "POST":
            raise Refusal(405, "method_not_allowed", "Use POST.")
        return for_operators(_download)(request)
    except FAILURES as error:
        response = failure_response(request, error)
        if response.status_code == 405:
            response["Allow"] = "POST"
        return response


def _download(request: HttpRequest) -> HttpResponse:
    body = read_body(request)
    exploration, run_id = checked_exploration(request, body), own_run_id(request, read_run_id(body))
    try:
        file = explore_download(exploration, read_text(body, "format"), rows=_rows(body), run_id=run_id, now=now())
    except InvalidExploration as error:
        raise invalid_exploration(error) from error
    run = file.run
    note_exploration(
        request, exploration, rows=run.row_count, downloaded=file.name, database_seconds=run.database_seconds
    )
    return HttpResponse(
        run.body,
        headers={
            "Content-Type": f"{file.form.value}; charset=utf-8" if file.form in _TEXTS else file.form.value,
            "Content-Disposition": f'attachment; filename="{file.name}"',
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "X-Result-Rows": str(run.row_count),
            "X-Result-Truncated": "true" if run.truncated else "false",
        },
    )


def _rows(body: Json) -> int:
    rows = body.get("rows")
    if not isinstance(rows, int) or isinstance(rows, bool):
        raise Malformed("rows must be a whole number.")
    return rows
