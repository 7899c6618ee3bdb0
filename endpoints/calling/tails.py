"""Tails: pages of the new rows of an LQL query, each with the token for the next one.

    lql=m.level:error tail=true                        the newest rows, newest first, and where the next page begins
    lql=m.level:error tail=true page_token=<token>     the rows that have come since; none is an empty page

Every page is a sandbox query like any other: through the same walls, tenant, redaction, limits and turns.

A row has come since if it is behind the token's place and was not sent. The place stays ENDPOINTS_TAIL_LATE_SECONDS
behind the clock: a row that is stored so long after its timestamp, or sooner, is in some page. Rows further ahead of
the clock than that come when it is their time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import Any, Final

from django.conf import settings

from endpoints.access.secrets import Caller
from endpoints.access.token_limits import turn
from endpoints.cache import QueryRequest
from endpoints.calling.consumer_queries import prepare_lql
from endpoints.calling.pages import PAGE_TOKEN
from endpoints.calling.prepared_queries import PreparedQuery, Sandbox, max_result_bytes, over_budget
from endpoints.calling.producing import run_sandboxed
from endpoints.calling.query_requests import Call, read_request
from endpoints.calling.tail_places import SEEN_ROWS, Place, hash_row, read_page_token, write_page_token
from endpoints.definition import Version
from endpoints.errors import AmbiguousSandboxQuery, InvalidRequest, NotAcceptable
from endpoints.lql.lowering import PLACE_COLUMNS, Stretch
from endpoints.results.encoding import encode_rows
from endpoints.results.outcomes import Outcome, OverBudget, ResultFormat, Rows, TimestampForm

PAGE_ROWS: Final = 1_000  # of one page, if the endpoint's own limit is not lower
_ON: Final = frozenset(("true", "1", "yes", "on"))
_OFF: Final = frozenset(("false", "0", "no", "off"))

# Runs what is prepared over the sandbox of the tail's version, and returns its rows.
Run = Callable[[Callable[[Sandbox], PreparedQuery]], Rows]


@dataclass(frozen=True, slots=True)
class Tail:
    """A checked request for a page; without a place it is for the first one."""

    endpoint: Version
    request: QueryRequest
    place: Place | None
    binding: bytes

    @property
    def page_rows(self) -> int:
        return min(self.endpoint.max_rows, PAGE_ROWS)


def wants_tail(endpoint: Version, call: Call) -> bool:
    """Tell whether a call that sends `tail` wants a tail: an endpoint's own parameter of that name comes first.

    Raises InvalidRequest if it says neither yes nor no.
    """
    if any(parameter.name == "tail" for parameter in endpoint.parameters):
        return False
    word = call.tail.lower()
    if word not in _ON | _OFF:
        raise InvalidRequest(details=[{"name": "tail", "reason": "must be true or false"}])
    return word in _ON


def read_tail(endpoint: Version, call: Call, caller: Caller | None, *, whose: str = "") -> Tail:
    """Return the tail that a call asks for; `whose` it is counts where nobody calls with an access token.

    Raises InvalidRequest, InvalidPageToken, NotAcceptable, and what `read_request` raises.
    """
    if call.sandbox_sql and not call.sandbox_lql:
        raise InvalidRequest("`tail` follows the rows of an `lql` query; it does not take `sql`.")
    if call.sandbox_sql:
        raise AmbiguousSandboxQuery
    if not call.sandbox_lql:
        raise InvalidRequest("`tail` follows the rows of an `lql` query: send one, such as `lql=m.level:error`.")
    if call.format is not ResultFormat.JSON:
        raise NotAcceptable([ResultFormat.JSON.value])
    # The page token of a tail is not one of a stored query's page.
    arguments = {name: value for name, value in call.arguments.items() if name != PAGE_TOKEN}
    request = read_request(endpoint, replace(call, arguments=arguments), caller)
    binding = _binding(endpoint, request, caller, whose)
    place = read_page_token(call.page_token, binding) if call.page_token else None
    return Tail(endpoint, request, place, binding)


def next_page(tail: Tail, caller: Caller | None) -> Outcome:
    """Return the page as JSON. Raises an EndpointError."""
    endpoint = tail.endpoint

    def run(prepare: Callable[[Sandbox], PreparedQuery]) -> Rows:
        with turn(caller, is_sandbox_query=True, statement_seconds=endpoint.statement_timeout_seconds):
            return run_sandboxed(endpoint, prepare)

    return page_of(tail, run)


def page_of(tail: Tail, run: Run) -> Outcome:
    """Return the page as JSON, from the rows that `run` returns. Raises what it raises, and InvalidLQL."""
    now, late = datetime.now(UTC), timedelta(seconds=settings.ENDPOINTS_TAIL_LATE_SECONDS)
    place = tail.place
    stretch = Stretch(until=now + late, since=None if place is None else place.key)
    # Rows that were sent come again, before others or between them.
    max_rows = tail.page_rows if place is None else tail.page_rows + SEEN_ROWS

    def prepare(sandbox: Sandbox) -> PreparedQuery:
        limited = replace(tail.endpoint, max_rows=max_rows)
        return prepare_lql(limited, tail.request.sandbox_text, tail.request.arguments, sandbox, stretch=stretch)

    try:
        rows = run(prepare)
        new, following, truncated = _new_rows(tail, rows, earliest=now - late)
        return _encode(tail, rows, new, following, truncated=truncated)
    except OverBudget as error:
        raise over_budget("lql") from error


def _new_rows(tail: Tail, rows: Rows, *, earliest: datetime) -> tuple[list[Sequence[Any]], Place, bool]:
    """Return the rows to send, newest first, where the next page begins, and whether there were more."""
    width, place = len(rows.columns), tail.place
    found = [(_key(row, width), hash_row(row[:width]), row) for row in rows.rows]
    seen: frozenset[bytes] = frozenset() if place is None else place.seen
    new = [each for each in found if each[1] not in seen]
    truncated = rows.truncated or len(new) > tail.page_rows
    new = new[: tail.page_rows]
    following = (earliest, "")
    if place is None:
        # Older rows than the newest ones were not asked for.
        following = max(following, new[-1][0]) if truncated else following
    else:
        # What has not been sent is behind the last one.
        following = max(place.key, min(following, new[-1][0]) if truncated and new else following)
        new.reverse()
    known = sorted((key, digest) for key, digest, _ in found if key >= following and digest in seen)
    known += [(key, digest) for key, digest, _ in new if key >= following]
    # Rows that were sent and are behind the last one found.
    further = seen.difference(digest for _, digest, _ in found) if rows.truncated else frozenset()
    kept = max(1, SEEN_ROWS - len(further))
    if len(known) > kept:
        known = sorted(known)[-kept:]
        following = max(following, known[0][0])
    at = Place(*following, seen=further.union(digest for _, digest in known))
    return [row for _, _, row in new], at, truncated


def _key(row: Sequence[Any], width: int) -> tuple[datetime, str]:
    timestamp, row_id = row[width - PLACE_COLUMNS : width]
    try:
        return datetime.fromisoformat(timestamp), row_id or ""
    except ValueError:  # before the year 1: nothing is older
        return datetime.min.replace(tzinfo=UTC), ""


def _encode(tail: Tail, rows: Rows, new: Sequence[Sequence[Any]], following: Place, *, truncated: bool) -> Outcome:
    started = perf_counter()
    shown = len(rows.columns) - PLACE_COLUMNS
    body = encode_rows(
        replace(
            rows,
            columns=rows.columns[:shown],
            rows=new,
            types=rows.types[:shown],
        ),
        ResultFormat.JSON,
        redact=tail.request.redact,
        timestamps_as=TimestampForm(tail.endpoint.timestamps_as),
        max_bytes=max_result_bytes("lql"),
    )
    token = write_page_token(following, tail.binding)
    return Outcome(
        body=b'%s,"next":"%s"}' % (body.removesuffix(b"}"), token.encode()),
        format=ResultFormat.JSON,
        row_count=len(new),
        truncated=truncated,
        database_seconds=rows.database_seconds,
        encoding_seconds=perf_counter() - started,
    )


def _binding(endpoint: Version, request: QueryRequest, caller: Caller | None, whose: str) -> bytes:
    """Return what a page token is for: nothing else than this tail of this caller can read it."""
    bound = {} if caller is None else dict(caller.bound_arguments)
    of_version = [endpoint.sql, endpoint.version and endpoint.pk.hex, endpoint.version]
    facts = [of_version, "" if caller is None else caller.prefix, bound, whose]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode() + request.canonical).digest()
