"""A request that loads rows, in any form: who sends it, where its rows go, and what becomes of them."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Final

from django.conf import settings
from django.http import HttpRequest

from config import logs
from endpoints.access.token_limits import admit
from endpoints.api.arguments import RawArguments, read_query_string
from endpoints.api.authentication import authenticate
from endpoints.api.bodies import Body, receive_body
from endpoints.api.middleware import request_id_of
from endpoints.api.replies import as_endpoint_error
from endpoints.cache.usage import note_load, note_load_end
from endpoints.calling.calls import note_log_access
from endpoints.calling.loading import Load, LoadedRows, LoadTarget, check_load, load_sent_rows
from endpoints.errors import InternalError, InvalidRequest, MethodNotAllowed, UnsupportedMediaType
from logsources.batches import RowReader

METHODS: Final = ("POST", "OPTIONS")
_MAX_SENDING_CHARACTERS: Final = 255


@dataclass(frozen=True, slots=True)
class LoadForm:
    """A form that the body of a load may have, and whether bad rows never refuse the others."""

    reader: RowReader
    media_types: tuple[str, ...]
    leaves_bad_rows_out: bool = False


def load(request: HttpRequest, form: LoadForm) -> LoadedRows:
    """Store the rows of the body, return the result once they are on disk, and count it. Raises EndpointError alone."""
    started, seen = perf_counter(), _Seen()
    failure, loaded = None, None
    try:
        loaded = _load(request, form, seen)
    except Exception as error:  # noqa: BLE001  # each is one of our errors to the caller
        failure = as_endpoint_error(error)
    note_load(
        seen.source,
        status=200 if failure is None else failure.status,
        rows=0 if loaded is None else loaded.loaded,
        sent_bytes=seen.sent_bytes,
        seconds=perf_counter() - started,
    )
    note_log_access(
        "load",
        seen.source,
        caller=seen.caller,
        rows=0 if loaded is None else loaded.loaded,
        seconds=perf_counter() - started,
        error=failure,
        request_id=request_id_of(request),
    )
    note_load_end(
        seen.source,
        rows=0 if loaded is None else loaded.loaded,
        failure="" if failure is None else failure.code,
    )
    if loaded is None:
        raise failure or InternalError
    logs.bind(log_source=loaded.source, rows_loaded=loaded.loaded)
    return loaded


@dataclass(slots=True)
class _Seen:
    """What is known of a load, also of one that fails."""

    source: str = ""
    sent_bytes: int = 0
    caller: tuple[str, str] = ("", "")  # name and prefix


def _load(request: HttpRequest, form: LoadForm, seen: _Seen) -> LoadedRows:
    caller = authenticate(request.META)
    seen.caller = (caller.name, caller.prefix)
    admit(caller)
    if request.method != "POST":
        raise MethodNotAllowed(str(request.method), METHODS)
    arguments = read_query_string(request.META.get("QUERY_STRING", "").encode("latin-1"))
    skip_bad_rows = form.leaves_bad_rows_out or _skips_bad_rows(arguments)
    target = check_load(_target(arguments), caller=caller)
    seen.source = target.source
    return load_sent_rows(
        Load(
            target=target,
            receive=lambda: _receive(request, form, seen).content,
            default_project=caller.default_project,
            sending=_sending(request),
            skip_bad_rows=skip_bad_rows,
            reader=form.reader,
        )
    )


def _receive(request: HttpRequest, form: LoadForm, seen: _Seen) -> Body:
    if request.content_type and request.content_type.lower() not in form.media_types:
        raise UnsupportedMediaType(form.media_types[:2])
    body = receive_body(request.META, max_bytes=settings.ENDPOINTS_MAX_LOAD_BYTES)
    seen.sent_bytes = len(body.sent)
    return body


def _target(arguments: RawArguments) -> LoadTarget:
    return LoadTarget(source=_text(arguments, "source"), producer_name=_text(arguments, "source_name"))


def _skips_bad_rows(arguments: RawArguments) -> bool:
    wanted = _text(arguments, "bad_rows") or "refuse"
    if wanted not in ("refuse", "skip"):
        raise InvalidRequest(details=[{"name": "bad_rows", "reason": "must be `refuse` or `skip`"}])
    return wanted == "skip"


def _text(arguments: RawArguments, name: str) -> str:
    if name in arguments.repeated:
        raise InvalidRequest(details=[{"name": name, "reason": "is sent more than once"}])
    value = arguments.values.get(name, "")
    return value if isinstance(value, str) else ""


def _sending(request: HttpRequest) -> str:
    sent = str(request.META.get("HTTP_IDEMPOTENCY_KEY", "")).strip()
    if len(sent) > _MAX_SENDING_CHARACTERS:
        raise InvalidRequest(f"Idempotency-Key may have at most {_MAX_SENDING_CHARACTERS} characters.")
    return sent
