"""POST /api/logs: rows from a log shipper into a log source."""

from __future__ import annotations

from typing import Final

import orjson
from django.http import HttpRequest, HttpResponse

from endpoints.api.load_requests import METHODS, LoadForm, load
from endpoints.api.replies import JSON, error_response
from endpoints.api.views import AnsweringView
from endpoints.calling.loading import LoadedRows
from endpoints.errors import EndpointError
from logsources.json_batches import read_rows

# NDJSON has no registered name; with these types the first character tells which form the body has.
JSON_ROWS: Final = LoadForm(
    read_rows, ("application/json", "application/x-ndjson", "application/ndjson", "application/jsonl")
)


class LoadView(AnsweringView):
    """Store the rows of the body, and answer once they are on disk."""

    def answer(self, request: HttpRequest, **of_route: str) -> HttpResponse:
        if request.method == "OPTIONS":
            return HttpResponse(status=204, headers={"Allow": ", ".join(METHODS)})
        try:
            loaded = load(request, JSON_ROWS)
        except EndpointError as error:
            return error_response(request, error)
        return HttpResponse(
            orjson.dumps({"result": [_result(loaded)]}),
            content_type=JSON,
            headers={"Cache-Control": "no-store"},
        )


def _result(loaded: LoadedRows) -> dict[str, object]:
    result: dict[str, object] = {
        "source": loaded.source,
        "loaded": loaded.loaded,
        "already_there": loaded.already_there,
    }
    if loaded.without_timestamp:
        result["without_timestamp"] = loaded.without_timestamp
    if loaded.with_replacements:
        result["with_replacements"] = loaded.with_replacements
    if loaded.bad_rows:
        result["bad_rows"] = loaded.bad_rows
        result["details"] = [{"index": bad.index, "reason": bad.reason} for bad in loaded.listed_bad_rows]
    return result
