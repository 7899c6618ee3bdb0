"""Counts and notes beside the rows of the log explorer, as JSON; below ``/admin/logs/``::

    POST values/      {EXPLORATION, "path": text, "run_id": RUN_ID}
                      -> {"values": [{"kind": …, "text": text, "rows": n}, …], "counted": n, "different": n,
                          "is_part": boolean (only the newest rows were counted), "counted_rows": n (at most)}
    POST severities/  {EXPLORATION, "run_id": RUN_ID}
                      -> {"counts": {severity: [n of each bar of the histogram, …], …} or null (too many rows)}
    POST notes/       {EXPLORATION, "run_id": RUN_ID} -> {"notes": [text, …]}

EXPLORATION, RUN_ID, and who may ask, as in `explorer`.
"""

from __future__ import annotations

from dataclasses import asdict

from django.http import HttpRequest

from endpoints.admin.draft_json import Json, read_run_id
from endpoints.admin.explorer import checked_exploration, invalid_exploration, note_exploration, read_text
from endpoints.admin.json_views import own_run_id, read_body
from endpoints.exploring.counts import COUNTED_ROWS, explore_severities, explore_top_values
from endpoints.exploring.exploring import InvalidExploration
from endpoints.exploring.notes import explore_notes


def top_values(request: HttpRequest) -> Json:
    """Answer with the most frequent values of a field."""
    body = read_body(request)
    exploration, run_id = checked_exploration(request, body), own_run_id(request, read_run_id(body))
    path = read_text(body, "path")
    try:
        found = explore_top_values(exploration, path, run_id=run_id)
    except InvalidExploration as error:
        raise invalid_exploration(error) from error
    # Values are as telling as rows.
    seconds = found.run.database_seconds
    note_exploration(request, exploration, rows=len(found.values), field=path, database_seconds=seconds)
    return {
        "values": [{**asdict(value), "rows": rows} for value, rows in found.values],
        "counted": found.counted,
        "different": found.different,
        "is_part": found.is_part,
        "counted_rows": COUNTED_ROWS,
    }


def severities(request: HttpRequest) -> Json:
    """Answer with the severities of each bar."""
    body = read_body(request)
    exploration, run_id = checked_exploration(request, body), own_run_id(request, read_run_id(body))
    try:
        return {"counts": explore_severities(exploration, run_id=run_id).counts}
    except InvalidExploration as error:
        raise invalid_exploration(error) from error


def notes(request: HttpRequest) -> Json:
    """Answer with what the query probably does not mean."""
    body = read_body(request)
    exploration, run_id = checked_exploration(request, body), own_run_id(request, read_run_id(body))
    try:
        return {"notes": list(explore_notes(exploration, run_id=run_id))}
    except InvalidExploration as error:
        raise invalid_exploration(error) from error
