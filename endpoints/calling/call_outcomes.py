"""Remember how calls ended, for the operator: the last ones of each endpoint, and their numbers over a day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import time

from endpoints.access.known_records import KNOWN_RECORDS
from endpoints.access.secrets import Caller
from endpoints.cache import usage
from endpoints.cache.usage import Activity, EndpointStatistics, RecentCall
from endpoints.calling.calls import Answer
from endpoints.errors import EndpointError
from endpoints.models import Endpoint


@dataclass(frozen=True, slots=True)
class Using:
    """How an endpoint is used: its last calls, the newest first, a day's activity and the counts of its cache."""

    last_calls: tuple[RecentCall, ...]
    activity: Activity
    statistics: EndpointStatistics


def note_answered_call(answer: Answer, caller: Caller, *, status: int, seconds: float) -> None:
    """Remember a call that got its rows (or a 304), `seconds` after it came. Never raises; asks nobody."""
    call = RecentCall(
        at=time(),
        access_token=caller.name,
        access_token_prefix=caller.prefix,
        status=status,
        error_code="",
        rows=answer.outcome.row_count,
        milliseconds=seconds * 1000,
        cache=answer.served.state.value,
        version=answer.endpoint_version,
    )
    usage.note_outcome(answer.endpoint_id, call)


def note_failed_call(reference: str, error: EndpointError, caller: Caller | None, *, seconds: float) -> None:
    """Remember a call that ended with an error, where this process knows the endpoint. Never raises; asks nobody.

    Without a caller it is left out: anybody could fill the list.
    """
    endpoint = KNOWN_RECORDS.recall_endpoint(reference) if caller is not None else None
    if caller is None or endpoint is None:
        return
    call = RecentCall(
        at=time(),
        access_token=caller.name,
        access_token_prefix=caller.prefix,
        status=error.status,
        error_code=error.code,
        rows=0,
        milliseconds=seconds * 1000,
        cache="",
        version=endpoint.version,
    )
    usage.note_outcome(endpoint.pk.hex, call)


def call_activity(endpoints: Sequence[Endpoint]) -> list[Activity]:
    """Return the calls of each endpoint over the last 24 hours. Raises CacheUnavailable."""
    usage.FLUSHER.settle()
    by_id = usage.activity([endpoint.pk.hex for endpoint in endpoints], now=time())
    return [by_id[endpoint.pk.hex] for endpoint in endpoints]


def endpoint_use(endpoint: Endpoint, *, last_calls: int) -> Using:
    """Return how an endpoint is used, with at most this many of its last calls. Raises CacheUnavailable."""
    (activity,) = call_activity([endpoint])
    return Using(
        last_calls=tuple(usage.last_calls(endpoint.pk.hex, limit=last_calls)),
        activity=activity,
        statistics=usage.statistics([endpoint.pk.hex])[endpoint.pk.hex],
    )
