"""From the outcome of a call to its reply: the headers of the service contract, the body or a 304."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from time import perf_counter
from typing import Any, Final

from django.conf import settings
from django.utils.http import parse_etags

from endpoints.api.content_codings import encoded_body, is_tag_of, tag_in
from endpoints.api.links import link_to_next_page
from endpoints.api.replies import Reply
from endpoints.calling.cached_results import CacheState, Served
from endpoints.calling.calls import Answer
from endpoints.calling.query_requests import Call
from endpoints.calling.streams import StreamedAnswer
from endpoints.results.compression import COMPRESS_FROM_BYTES
from endpoints.results.encoding import BINARY_FORMATS
from endpoints.results.outcomes import ResultFormat

Environ = Mapping[str, Any]  # of WSGI, PEP 3333; Django's request.META is one

_CONTENT_TYPES: Final = {
    each: each.value if each in BINARY_FORMATS else f"{each.value}; charset=utf-8" for each in ResultFormat
}


def render_answer(environ: Environ, call: Call, answer: Answer, *, started: float) -> Reply:
    """Return the 200 (or 304) of a call with the headers of the service contract; `started` is a perf_counter."""
    served, outcome = answer.served, answer.outcome
    headers = {
        "ETag": served.etag,
        "Cache-Control": _cache_control(served),
        "Vary": _vary(settings.ENDPOINTS_HEADER_PREFIX, settings.RESPONSE_COMPRESSION),
        "X-Cache": served.state.value,
        "X-Result-Rows": str(outcome.row_count),
        "Server-Timing": f"db;dur={outcome.database_seconds * 1000:.2f}, "
        f"encode;dur={outcome.encoding_seconds * 1000:.2f}, total;dur={(perf_counter() - started) * 1000:.2f}",
    }
    if served.state is not CacheState.BYPASS:
        headers["Age"] = str(int(served.age_seconds))
    if outcome.truncated:
        headers["X-Result-Truncated"] = "true"
    elif outcome.at_own_limit:
        headers["X-Result-Truncated"] = "limit"
    if outcome.notes:
        headers["X-Result-Notes"] = "; ".join(outcome.notes)
    if outcome.next_page:
        headers["Link"] = link_to_next_page(call, answer.endpoint.parameters, outcome.next_page)
    if answer.ignored:
        headers["X-Ignored-Arguments"] = answer.ignored
    if call.named_format:
        headers["Content-Disposition"] = _as_file(call, answer)
    known = environ.get("HTTP_IF_NONE_MATCH")
    if known and environ["REQUEST_METHOD"] in ("GET", "HEAD") and (tag := _known_tag(served.etag, known)):
        headers["ETag"] = tag
        return Reply(304, headers)
    headers = {"Content-Type": _CONTENT_TYPES[outcome.format], **headers}
    if len(outcome.body) >= COMPRESS_FROM_BYTES and "HTTP_ACCEPT_ENCODING" in environ:
        return _encoded(headers, served, environ["HTTP_ACCEPT_ENCODING"])
    return Reply(200, headers, outcome.body)


def _encoded(headers: dict[str, str], served: Served, accept_encoding: str) -> Reply:
    body, coding = encoded_body(served, accept_encoding)
    if coding:
        headers |= {"ETag": tag_in(served.etag, coding), "Content-Encoding": coding}
    return Reply(200, headers, body)


def render_stream(call: Call, answer: Answer, body: StreamedAnswer, *, started: float) -> Reply:
    """Return the 200 of a stream: how many rows it has, and whether that is all, is said in its last line."""
    outcome = answer.outcome
    headers = {
        "Content-Type": f"{outcome.format.value}; charset=utf-8",
        "Cache-Control": "private, no-store",
        "Vary": _vary(settings.ENDPOINTS_HEADER_PREFIX, settings.RESPONSE_COMPRESSION),
        "X-Cache": answer.served.state.value,
        "X-Accel-Buffering": "no",  # nginx would keep up to a gigabyte of it in a file
        "Server-Timing": f"db;dur={outcome.database_seconds * 1000:.2f}, "
        f"total;dur={(perf_counter() - started) * 1000:.2f}",
    }
    if answer.ignored:
        headers["X-Ignored-Arguments"] = answer.ignored
    if call.named_format:
        headers["Content-Disposition"] = _as_file(call, answer)
    return Reply(200, headers, later=body)


def _as_file(call: Call, answer: Answer) -> str:
    """Return the Content-Disposition (RFC 6266) of an answer whose format was named: a browser saves it as a file.

    The name of an endpoint has letters, digits and `._-` alone.
    """
    return f'attachment; filename="{answer.endpoint.name}.{call.format.short_name}"'


@lru_cache(maxsize=8)
def _vary(prefix: str, compresses: bool) -> str:
    codings = "Accept-Encoding, " if compresses else ""
    return f"Accept, {codings}X-API-KEY, Authorization, {prefix}-ENDPOINT-REDACT-PII"


def _cache_control(served: Served) -> str:
    """RFC 9111, and RFC 5861 for the seconds in which a client may show an old answer while it fetches a new one."""
    if served.policy is None:
        return "private, no-cache"
    # Max-age counts from the time of the result: the recipient subtracts Age from it.
    fresh_for = int(served.age_seconds + served.fresh_for_seconds)
    stale_for = min(fresh_for, served.policy.stale_seconds)
    return f"private, max-age={fresh_for}, stale-while-revalidate={stale_for}"


def _known_tag(etag: str, if_none_match: str) -> str:
    """Return the tag of the result that the client has, in whatever coding, "" if it has none.

    If-None-Match compares weakly, RFC 9110 section 13.1.2. The answer names the client's own tag, by which it finds
    what it has stored (RFC 9111 section 4.3.4).
    """
    for candidate in parse_etags(if_none_match):
        tag = candidate.removeprefix("W/")
        if tag == "*":
            return etag
        if is_tag_of(tag, etag):
            return tag
    return ""
