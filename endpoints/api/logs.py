"""POST /api/logs: rows from a log shipper into a log source."""

from __future__ import annotations

from typing import Final

import orjson
import structlog
from django.conf import settings
from django.http import HttpRequest, HttpResponse

from endpoints.access.token_limits import admit
from endpoints.api.arguments import RawArguments, read_query_string
from endpoints.api.authentication import authenticate
from endpoints.api.exceptions import as_endpoint_error, error_response
from endpoints.api.load_bodies import read_load_body
from endpoints.api.replies import JSON
from endpoints.api.views import AnsweringView
from endpoints.calling.loading import Load, LoadedRows, LoadTarget, check_load, load_sent_rows
from endpoints.errors import InvalidRequest, MethodNotAllowed

METHODS: Final = ("POST", "OPTIONS")
_MAX_SENDING_CHARACTERS: Final = 255


class LoadView(AnsweringView):
    """Store the rows of the body, and answer once they are on disk."""

    def answer(self, request: HttpRequest, **of_route: str) -> HttpResponse:
        if request.method == "OPTIONS":
            return HttpResponse(status=204, headers={"Allow": ", ".join(METHODS)})
        try:
            loaded = _load(request)
        except Exception as error:  # noqa: BLE001  # whatever it was, the caller gets the one error body
            return error_response(request, as_endpoint_error(error))
        structlog.contextvars.bind_contextvars(log_source=loaded.source, rows_loaded=loaded.loaded)
        return HttpResponse(
            orjson.dumps({"result": [_result(loaded)]}), content_type=JSON, headers={"Cache-Control": "no-store"}
        )


def _load(request: HttpRequest) -> LoadedRows:
    caller = authenticate(request.META)
    admit(caller)
    if request.method != "POST":
        raise MethodNotAllowed(str(request.method), METHODS)
    arguments = read_query_string(request.META.get("QUERY_STRING", "").encode("latin-1"))
    target = _target(arguments)
    skip_bad_rows = _skips_bad_rows(arguments)
    check_load(target, caller=caller)
    return load_sent_rows(
        Load(
            target=target,
            receive=lambda: read_load_body(request, max_bytes=settings.ENDPOINTS_MAX_LOAD_BYTES).rows,
            sending=_sending(request),
            skip_bad_rows=skip_bad_rows,
        )
    )


def _target(arguments: RawArguments) -> LoadTarget:
    target = LoadTarget(source=_text(arguments, "source"), producer_name=_text(arguments, "source_name"))
    if bool(target.source) == bool(target.producer_name):
        raise InvalidRequest("Name the log source: `source`, or `source_name` by what its producer calls it, not both.")
    return target


def _skips_bad_rows(arguments: RawArguments) -> bool:
    wanted = _text(arguments, "bad_rows") or "refuse"
    if wanted not in ("refuse", "skip"):
        raise InvalidRequest(details=[{"name": "bad_rows", "reason": "is neither refuse nor skip"}])
    return wanted == "skip"


def _text(arguments: RawArguments, name: str) -> str:
    if name in arguments.repeated:
        raise InvalidRequest(details=[{"name": name, "reason": "is given more than once"}])
    value = arguments.values.get(name, "")
    return value if isinstance(value, str) else ""


def _sending(request: HttpRequest) -> str:
    sent = str(request.META.get("HTTP_IDEMPOTENCY_KEY", "")).strip()
    if len(sent) > _MAX_SENDING_CHARACTERS:
        raise InvalidRequest(f"Idempotency-Key has at most {_MAX_SENDING_CHARACTERS} characters.")
    return sent


def _result(loaded: LoadedRows) -> dict[str, object]:
    result: dict[str, object] = {
        "source": loaded.source,
        "loaded": loaded.loaded,
        "already_there": loaded.already_there,
    }
    if loaded.bad_rows:
        result["bad_rows"] = loaded.bad_rows
        result["details"] = [{"index": bad.index, "reason": bad.reason} for bad in loaded.listed_bad_rows]
    return result
