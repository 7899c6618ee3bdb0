"""Answer a request from the cache, or run it once for all callers that request it at that moment.

fresh entry                          → hit
expired entry, another one renews it → stale, at once
expired entry, nobody renews it      → renewed by this call (miss); stale if PostgreSQL does not answer
no entry                             → one caller runs the query, over all processes; the others wait (miss)
caching off, or Redis does not answer → bypass: the query runs for this call
wanted anew                          → the query runs for this call on the primary, past all of these (miss)
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from django.conf import settings

from endpoints import cache
from endpoints.access.secrets import Caller
from endpoints.access.token_limits import turn
from endpoints.cache import (
    CachePolicy,
    CacheUnavailable,
    FlightResult,
    QueryRequest,
    RecentEntry,
    ResultKey,
    Role,
    usage,
)
from endpoints.cache.entries import is_sent_to_primary, send_to_primary
from endpoints.cache.running_calls import RunningCall
from endpoints.calling.producing import produce
from endpoints.definition import Version
from endpoints.errors import (
    DatabaseUnavailable,
    LimitReached,
    Overloaded,
    QueryTimeout,
    QueryTooCostly,
)
from endpoints.log_database.servers import log_servers
from endpoints.results.outcomes import Outcome

# A runner may wait for a connection and encodes after its statement ended: its lease lasts longer than the statement.
LEASE_MARGIN_SECONDS: Final = 10
# A standby may lack what was written so long before the looks that it is judged by, beyond the lag that it may have.
LOOKS_SECONDS: Final = 10
_WARMED: Final = "warmed"  # no prefix of an access token is a word


class CacheState(StrEnum):
    """What the cache did for a call: the value of ``X-Cache``."""

    HIT = "hit"
    STALE = "stale"
    MISS = "miss"
    BYPASS = "bypass"


@dataclass(frozen=True, slots=True)
class Served:
    """A result and where it came from; without a policy, age and key if the cache was not used."""

    outcome: Outcome
    etag: str
    state: CacheState
    age_seconds: float = 0.0
    policy: CachePolicy | None = None
    key: ResultKey | None = None

    @property
    def fresh_for_seconds(self) -> float:
        return 0.0 if self.policy is None else self.policy.remaining(self.age_seconds)


def cache_policy(endpoint: Version) -> CachePolicy:
    """Return how the results of this version of the endpoint are cached."""
    lease_seconds = endpoint.statement_timeout_seconds + LEASE_MARGIN_SECONDS
    return _policy(endpoint.cache_seconds, settings.ENDPOINTS_STALE_SECONDS, lease_seconds)


_policy = lru_cache(CachePolicy)  # each call needs one, and endpoints have few different ones


def _shared(policy: CachePolicy, request: QueryRequest, caller: Caller | None) -> CachePolicy:
    """Return the policy of a request: consumers choose the results of sandbox queries, so they count for their caller.

    What warming renews counts for no caller, but together.
    """
    if not request.sandbox_language:
        return policy
    return replace(policy, share=_WARMED if caller is None else caller.prefix)


def serve(
    endpoint: Version,
    request: QueryRequest,
    caller: Caller | None = None,
    *,
    anew: bool = False,
    environ: Mapping[str, Any] | None = None,
    takes_stale: bool = True,
) -> Served:
    """Return the result of a request of this version of the endpoint, anew with every row committed before this call.

    It is stale only for callers who take that; others wait for a newer one, or get the failure to make it.
    What runs in PostgreSQL counts against the limits of the caller's access token; without a caller against none.
    With the WSGI environ of the caller's request, the call ends when nobody wants its result. Raises an EndpointError.
    """
    if not endpoint.cache_seconds:
        with running_call(caller, environ):
            return _bypass(_run(endpoint, request, caller, anew))
    key = cache.result_key(endpoint.pk.hex, endpoint.version, request)
    policy = _shared(cache_policy(endpoint), request, caller)
    if anew or not takes_stale:
        policy = replace(policy, anew=anew, takes_stale=takes_stale)
    served = _serve(endpoint, key, request, caller, policy, environ)
    usage.note_call(key, request, kind=served.state.value, keep_seconds=endpoint.cache_seconds)
    return served


def renew_entry(
    endpoint: Version,
    key: ResultKey,
    request: QueryRequest,
    caller: Caller | None = None,
    *,
    policy: CachePolicy | None = None,
) -> FlightResult | None:
    """Run the request and replace its entry; None if another one runs it at this moment.

    Raises an EndpointError, and CacheUnavailable.
    """
    policy = policy or _shared(cache_policy(endpoint), request, caller)
    return cache.refresh(
        key, produce=lambda: _run(endpoint, request, caller, _is_for_primary(key, policy)), policy=policy
    )


def _is_for_primary(key: ResultKey, policy: CachePolicy) -> bool:
    """Tell whether the primary must run it: what is wanted anew, and what follows while a standby may lack its rows."""
    if log_servers().uses_standbys:
        with suppress(CacheUnavailable):
            if not policy.anew:
                return is_sent_to_primary(key)
            may_lack = settings.ENDPOINTS_STANDBY_MAX_LAG_SECONDS + LOOKS_SECONDS
            send_to_primary(key, seconds=policy.lease_seconds + may_lack)
    return policy.anew


def _run(endpoint: Version, request: QueryRequest, caller: Caller | None, on_primary: bool) -> Outcome:
    with _turn(endpoint, request, caller):
        return produce(endpoint, request, on_primary=on_primary)


def _turn(endpoint: Version, request: QueryRequest, caller: Caller | None) -> AbstractContextManager[None]:
    seconds = endpoint.statement_timeout_seconds
    return turn(caller, is_sandbox_query=bool(request.sandbox_language), statement_seconds=seconds)


def _serve(
    endpoint: Version,
    key: ResultKey,
    request: QueryRequest,
    caller: Caller | None,
    policy: CachePolicy,
    environ: Mapping[str, Any] | None,
) -> Served:
    try:
        recent = cache.RECENT.fetch(key, policy)
    except CacheUnavailable:
        recent = None
    if recent is not None and recent.is_fresh:
        return _serve_entry(key, recent, CacheState.HIT)
    with running_call(caller, environ):
        return _compute(endpoint, key, request, caller, policy, recent)


def running_call(caller: Caller | None, environ: Mapping[str, Any] | None) -> RunningCall:
    """Return the context of a call that ends when nobody wants its result, as far as the environ can tell."""
    return RunningCall("" if caller is None else caller.prefix, {} if environ is None else environ)


def _compute(
    endpoint: Version,
    key: ResultKey,
    request: QueryRequest,
    caller: Caller | None,
    policy: CachePolicy,
    recent: RecentEntry | None,
) -> Served:
    """Run the request, or wait for another one that runs it; the recent entry, if there is one, is not fresh."""
    if policy.anew:
        with _turn(endpoint, request, caller):  # to its end: until then it keeps a thread of the process
            run = cache.run_once(
                key, produce=lambda: produce(endpoint, request, on_primary=_is_for_primary(key, policy)), policy=policy
            )
        return _serve_run(key, run, policy)
    if recent is None:
        party = "" if caller is None else caller.own_id
        run = cache.run_once(
            key,
            produce=lambda: _run(endpoint, request, caller, _is_for_primary(key, policy)),
            policy=policy,
            party=party,
        )
        return _serve_run(key, run, policy)
    try:
        renewed = renew_entry(endpoint, key, request, caller, policy=policy)
    except (CacheUnavailable, DatabaseUnavailable, LimitReached, Overloaded, QueryTimeout, QueryTooCostly):
        # An old answer, marked as one, is better than none: RFC 5861, stale-if-error.
        renewed = None
    return _serve_entry(key, recent, CacheState.STALE) if renewed is None else _serve_run(key, renewed, policy)


def _serve_run(key: ResultKey, run: FlightResult, policy: CachePolicy) -> Served:
    if not run.shared:
        return _bypass(run.outcome)
    state = CacheState.HIT if run.role is Role.FOUND else CacheState.MISS
    return Served(run.outcome, run.etag, state, run.age_seconds, policy, key)


def _serve_entry(key: ResultKey, recent: RecentEntry, state: CacheState) -> Served:
    entry = recent.entry
    return Served(entry.outcome, entry.etag, state, recent.age_seconds, entry.policy, key)


def _bypass(outcome: Outcome) -> Served:
    return Served(outcome, cache.entity_tag(outcome.body), CacheState.BYPASS)
