"""Answer a recipe from the cache, or run it once for everybody who asks for it at that moment.

fresh entry                          → hit
expired entry, somebody renews it    → stale, at once
expired entry, nobody does           → renewed by this call (miss); stale where PostgreSQL does not answer
no entry                             → one caller runs the query, over all processes; the others wait (miss)
caching off, or Redis does not answer → bypass: the query runs for this call
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from django.conf import settings

from endpoints import cache
from endpoints.access_tokens import Caller
from endpoints.cache import CacheUnavailable, Landing, RecentEntry, Recipe, ResultKey, Role, usage
from endpoints.definition import Version
from endpoints.errors import DatabaseUnavailable, LimitReached, Overloaded, QueryTimeout
from endpoints.outcomes import Outcome
from endpoints.services.producing import produce
from endpoints.services.token_limits import turn

# A runner may wait for a connection and encodes after its statement ended: its lease lasts longer than the statement.
LEASE_MARGIN_SECONDS: Final = 10


class CacheState(StrEnum):
    """What the cache did for a call: the value of ``X-Cache``."""

    HIT = "hit"
    STALE = "stale"
    MISS = "miss"
    BYPASS = "bypass"


@dataclass(frozen=True, slots=True)
class Served:
    """A result and where it came from; the seconds are 0 where the cache had no part."""

    outcome: Outcome
    etag: str
    state: CacheState
    age_seconds: float = 0.0
    fresh_for_seconds: float = 0.0


def serve(endpoint: Version, recipe: Recipe, caller: Caller | None = None) -> Served:
    """Return the result of a recipe of this version of the endpoint. Raises an EndpointError.

    What runs in PostgreSQL counts against the limits of the caller's access token; without a caller against none.
    """
    if not endpoint.cache_seconds:
        return _bypass(_run(endpoint, recipe, caller))
    key = cache.result_key(endpoint.pk.hex, endpoint.version, recipe)
    served = _serve(endpoint, key, recipe, caller)
    usage.note_call(key, recipe, kind=served.state.value, keep_seconds=endpoint.cache_seconds)
    return served


def renew_entry(endpoint: Version, key: ResultKey, recipe: Recipe, caller: Caller | None = None) -> Landing | None:
    """Run the recipe and replace its entry; None when somebody else is running it at this moment.

    Raises an EndpointError, and CacheUnavailable.
    """
    return cache.refresh(
        key,
        produce=lambda: _run(endpoint, recipe, caller),
        fresh_seconds=endpoint.cache_seconds,
        stale_seconds=settings.ENDPOINTS_STALE_SECONDS,
        lease_seconds=endpoint.statement_timeout_seconds + LEASE_MARGIN_SECONDS,
    )


def _run(endpoint: Version, recipe: Recipe, caller: Caller | None) -> Outcome:
    with turn(
        caller,
        is_sandbox_query=bool(recipe.sandbox_language),
        statement_seconds=endpoint.statement_timeout_seconds,
    ):
        return produce(endpoint, recipe)


def _serve(endpoint: Version, key: ResultKey, recipe: Recipe, caller: Caller | None) -> Served:
    try:
        recent = cache.RECENT.fetch(
            key, fresh_seconds=endpoint.cache_seconds, stale_seconds=settings.ENDPOINTS_STALE_SECONDS
        )
    except CacheUnavailable:
        recent = None
    if recent is None:
        return _serve_run(endpoint, key, recipe, caller)
    if recent.remaining_fresh_seconds:
        return _serve_entry(recent, CacheState.HIT)
    try:
        landing = renew_entry(endpoint, key, recipe, caller)
    except (CacheUnavailable, DatabaseUnavailable, LimitReached, Overloaded, QueryTimeout):
        # Better an old answer, marked as one, than none: RFC 5861, stale-if-error.
        return _serve_entry(recent, CacheState.STALE)
    return _serve_entry(recent, CacheState.STALE) if landing is None else _landed(endpoint, landing)


def _serve_run(endpoint: Version, key: ResultKey, recipe: Recipe, caller: Caller | None) -> Served:
    landing = cache.fly(
        key,
        produce=lambda: _run(endpoint, recipe, caller),
        fresh_seconds=endpoint.cache_seconds,
        stale_seconds=settings.ENDPOINTS_STALE_SECONDS,
        lease_seconds=endpoint.statement_timeout_seconds + LEASE_MARGIN_SECONDS,
        party="" if caller is None else caller.prefix,
    )
    return _landed(endpoint, landing)


def _landed(endpoint: Version, landing: Landing) -> Served:
    if not landing.shared:
        return _bypass(landing.outcome)
    state = CacheState.HIT if landing.role is Role.FOUND else CacheState.MISS
    fresh_for_seconds = max(0.0, endpoint.cache_seconds - landing.age_seconds)
    return Served(landing.outcome, landing.etag, state, landing.age_seconds, fresh_for_seconds)


def _serve_entry(recent: RecentEntry, state: CacheState) -> Served:
    entry = recent.entry
    return Served(entry.outcome, entry.etag, state, recent.age_seconds, recent.remaining_fresh_seconds)


def _bypass(outcome: Outcome) -> Served:
    return Served(outcome, cache.entity_tag(outcome.body), CacheState.BYPASS)
