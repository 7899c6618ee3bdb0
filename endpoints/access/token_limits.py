"""What one access token may use of the service: calls a minute, calls and sandbox queries at the same time.

Calls are counted when they come; what runs at the same time only where a call reaches PostgreSQL: an answer from the
cache takes nothing that others could miss, and of a crowd that waits for one result only the call that runs it counts.
A limit is the access token's own, else the installation's. The operator's own calls and warming have none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from time import monotonic

import structlog
from django.conf import settings

from config.setting_values import Rate
from endpoints.access.secrets import Caller, OwnLimits
from endpoints.cache.permits import PERMITS, use_of
from endpoints.cache.rate_limits import calls_in_window, seconds_suspended, seconds_until_admitted, suspend
from endpoints.errors import (
    DatabaseUnavailable,
    LimitReached,
    QueryTimeout,
    RateLimited,
    SandboxSuspended,
    TooManyCalls,
    TooManySandboxQueries,
)

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LimitsInForce:
    """The limits that hold for an access token, its own or the installation's; None is no limit."""

    calls: Rate | None
    calls_at_once: int | None
    sandbox_queries_at_once: int | None


@dataclass(frozen=True, slots=True)
class LimitsUse:
    """How much of its limits an access token uses, over all processes; what has no limit is not counted."""

    calls: int
    running: int
    waiting: int
    sandbox_queries: int
    sandbox_suspended_seconds: float


def limits_in_force(own: OwnLimits) -> LimitsInForce:
    """Return which limits hold for an access token with these of its own."""
    return LimitsInForce(
        calls=_rate(own),
        calls_at_once=_in_force(own.calls_at_once, settings.ENDPOINTS_CALLS_AT_ONCE),
        sandbox_queries_at_once=_in_force(own.sandbox_queries_at_once, settings.ENDPOINTS_SANDBOX_QUERIES_AT_ONCE),
    )


def limits_use(prefix: str, own: OwnLimits) -> LimitsUse:
    """Return how an access token uses its limits. Raises CacheUnavailable."""
    rate = _rate(own)
    calls, sandbox_queries = use_of(_calls(prefix)), use_of(_sandbox_queries(prefix))
    return LimitsUse(
        calls=calls_in_window(prefix, window_seconds=rate.seconds) if rate else 0,
        running=calls.running,
        waiting=calls.waiting + sandbox_queries.waiting,
        sandbox_queries=sandbox_queries.running,
        sandbox_suspended_seconds=seconds_suspended(prefix),
    )


def admit(caller: Caller) -> None:
    """Count a call against how often its access token may call. Raises RateLimited."""
    rate = _rate(caller.limits)
    if rate is None:
        return
    wait = seconds_until_admitted(caller.prefix, calls=rate.calls, window_seconds=rate.seconds)
    if wait:
        raise RateLimited(calls=rate.calls, window_seconds=rate.seconds, retry_after_seconds=wait)


@contextmanager
def turn(caller: Caller | None, *, is_sandbox_query: bool, statement_seconds: float) -> Iterator[None]:
    """Count a call that reaches PostgreSQL for as long as it runs; short of a turn it waits as for a connection.

    Raises TooManyCalls, TooManySandboxQueries and SandboxSuspended. A sandbox query that reaches its statement timeout
    suspends those of its access token.
    """
    if caller is None:
        yield
        return
    own, taken = caller.limits, []
    try:
        if is_sandbox_query:
            _refuse_suspended(caller)
            limit = _in_force(own.sandbox_queries_at_once, settings.ENDPOINTS_SANDBOX_QUERIES_AT_ONCE)
            # First: who waits for the smaller number must not hold one of the larger meanwhile.
            if limit is not None:
                taken.append(_take(_sandbox_queries(caller.prefix), limit, TooManySandboxQueries))
        limit = _in_force(own.calls_at_once, settings.ENDPOINTS_CALLS_AT_ONCE)
        if limit is not None:
            taken.append(_take(_calls(caller.prefix), limit, TooManyCalls))
        if is_sandbox_query:
            _refuse_suspended(caller)  # again: the turn waited for may be that of a query that overran
        started = monotonic()
        try:
            yield
        except (QueryTimeout, DatabaseUnavailable) as error:
            # PostgreSQL may also have failed to end it: the connection was then given up, after the timeout.
            has_overrun = isinstance(error, QueryTimeout) or monotonic() - started >= statement_seconds
            if is_sandbox_query and has_overrun:
                _suspend(caller)
            raise
    finally:
        for name in taken:
            PERMITS.give_back(name)


def _take(name: str, limit: int, refusal: Callable[[int], LimitReached]) -> str:
    has_turn = PERMITS.take(
        name,
        limit=limit,
        wait_seconds=settings.ENDPOINTS_POOL_WAIT_SECONDS,
        may_wait=settings.ENDPOINTS_POOL_SIZE // 2,  # each who waits keeps a thread from everybody else
    )
    if not has_turn:
        raise refusal(limit)
    return name


def _refuse_suspended(caller: Caller) -> None:
    if not settings.ENDPOINTS_OVERRUN_SECONDS:
        return
    seconds = seconds_suspended(caller.prefix)
    if seconds:
        raise SandboxSuspended(settings.ENDPOINTS_OVERRUN_SECONDS, retry_after_seconds=max(1, ceil(seconds)))


def _suspend(caller: Caller) -> None:
    if settings.ENDPOINTS_OVERRUN_SECONDS:
        suspend(caller.prefix, seconds=settings.ENDPOINTS_OVERRUN_SECONDS)
        logger.warning("sandbox_suspended", seconds=settings.ENDPOINTS_OVERRUN_SECONDS)


def _rate(own: OwnLimits) -> Rate | None:
    if own.calls_a_minute is None:
        default: Rate | None = settings.ENDPOINTS_RATE_LIMIT
        return default
    return Rate(own.calls_a_minute, 60) if own.calls_a_minute else None


def _in_force(own: int | None, default: int | None) -> int | None:
    return default if own is None else own or None


def _calls(prefix: str) -> str:
    return f"calls:{prefix}"


def _sandbox_queries(prefix: str) -> str:
    return f"sandbox:{prefix}"
