"""What one access token may use of the service: calls a minute, calls and sandbox queries at the same time.

Calls are counted when they come; what runs at the same time only where a call reaches PostgreSQL: an answer from the
cache takes nothing that others could miss, and of a crowd that waits for one result only the call that runs it counts.
A limit is the access token's own, else the installation's. The operator's own calls and warming have none.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import ceil
from time import monotonic
from typing import Final, cast

import structlog
from django.conf import settings

from config.setting_values import Rate
from endpoints.access.secrets import Caller, OwnLimits
from endpoints.cache.connection import CacheUnavailable, Script, ask_for, ask_script
from endpoints.cache.keys import PREFIX
from endpoints.cache.permits import PERMITS, use_of
from endpoints.errors import (
    DatabaseUnavailable,
    LimitReached,
    QueryTimeout,
    QueryTooCostly,
    RateLimited,
    SandboxSuspended,
    TooManyCalls,
    TooManySandboxQueries,
    TooManyStreams,
)
from endpoints.log_database.cancelling import held_until_stopped
from endpoints.log_database.servers import log_servers

# --- Rate limits ------------------------------------------------------------------------------------------------------
# How often a caller may call, and for how long it is refused: in Redis, so for all processes.
#
# While Redis is away each process counts by itself, to the same limit.
# The window begins with its first call and ends by itself, on the server's clock.
_COUNT: Final = Script("""
local count = redis.call('INCR', KEYS[1])
if count == 1 or redis.call('PTTL', KEYS[1]) > tonumber(ARGV[1]) then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return {count, redis.call('PTTL', KEYS[1])}
""")

KNOWN_SECONDS: Final = 0.1  # for so long a process takes a caller for not suspended without asking again
_CAPACITY: Final = 10_000  # callers that a process remembers

_lock = threading.Lock()
_windows: OrderedDict[str, tuple[float, float]] = OrderedDict()  # their ends, and the calls in them
_suspensions: OrderedDict[str, tuple[float, float]] = OrderedDict()  # their ends, and when Redis is asked again


def seconds_until_admitted(caller: str, *, calls: int, window_seconds: int) -> int:
    """Count a call; return 0 where it is within the limit, else in how many whole seconds the next one may come."""
    name = _rate_key(caller, window_seconds)
    try:
        counted, remaining_ms = cast("list[int]", ask_script(_COUNT, [name], [window_seconds * 1000]))
        count, remaining = float(counted), remaining_ms / 1000
    except CacheUnavailable:
        count, remaining = _count_here(name, window_seconds)
    return 0 if count <= calls else max(1, ceil(remaining))


def calls_in_window(caller: str, *, window_seconds: int) -> int:
    """Return the calls that were counted in the window which runs at the moment. Raises CacheUnavailable."""
    return int(ask_for("GET", _rate_key(caller, window_seconds)) or 0)


def suspend(caller: str, *, seconds: float) -> None:
    """Suspend a caller in all processes: here at once, elsewhere within KNOWN_SECONDS (not while Redis is away)."""
    ends_at = monotonic() + seconds
    with _lock:
        _remember(_suspensions, caller, (ends_at, ends_at))
    try:
        ask_for("SET", _suspension_key(caller), 1, "PX", max(1, round(seconds * 1000)))
    except CacheUnavailable:
        return  # this process keeps it by itself


def seconds_suspended(caller: str) -> float:
    """Return for how much longer a caller is suspended, 0 where it is not; asks Redis once in KNOWN_SECONDS."""
    now = monotonic()
    with _lock:
        ends_at, ask_again_at = _suspensions.get(caller, (0.0, 0.0))
    if now >= ask_again_at:
        ends_at = now + _seconds_noted(caller)
        with _lock:
            _remember(_suspensions, caller, (ends_at, max(ends_at, now + KNOWN_SECONDS)))
    return max(0.0, ends_at - now)


def _seconds_noted(caller: str) -> float:
    try:
        left_ms = int(ask_for("PTTL", _suspension_key(caller)))
        longest_ms: int = round(settings.ENDPOINTS_OVERRUN_SECONDS * 1000)
        if left_ms > longest_ms:  # Redis's clock was ahead
            ask_for("PEXPIRE", _suspension_key(caller), longest_ms)
        return max(0, min(left_ms, longest_ms)) / 1000  # negative where there is none
    except CacheUnavailable:
        return 0.0


def _count_here(name: str, window_seconds: int) -> tuple[float, float]:
    now = monotonic()
    with _lock:
        ends_at, count = _windows.get(name, (0.0, 0.0))
        if now >= ends_at:
            ends_at, count = now + window_seconds, 0.0
        _remember(_windows, name, (ends_at, count + 1))
    return count + 1, ends_at - now


def _remember(known: OrderedDict[str, tuple[float, float]], name: str, value: tuple[float, float]) -> None:
    known[name] = value
    known.move_to_end(name)
    if len(known) > _CAPACITY:
        known.popitem(last=False)


def _forget_lock() -> None:
    """A thread of the parent may have held it at the fork, and is not there to give it back."""
    global _lock
    _lock = threading.Lock()


def _rate_key(caller: str, window_seconds: int) -> str:
    return f"{PREFIX}:rate:{caller}:{window_seconds}"


def _suspension_key(caller: str) -> str:
    return f"{PREFIX}:suspended:{caller}"


os.register_at_fork(after_in_child=_forget_lock)


# --- Token limits -----------------------------------------------------------------------------------------------------
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
    """Count a call that reaches PostgreSQL until that has stopped; short of a turn it waits as for a connection.

    Raises TooManyCalls, TooManySandboxQueries and SandboxSuspended. A sandbox query that reaches its statement timeout,
    or the end of its memory or disk space, suspends those of its access token, or of its browser token alone.
    """
    if caller is None:
        yield
        return
    own = caller.limits
    with held_until_stopped() as held:
        if is_sandbox_query:
            _refuse_suspended(caller)
            limit = _in_force(own.sandbox_queries_at_once, settings.ENDPOINTS_SANDBOX_QUERIES_AT_ONCE)
            # First: who waits for the smaller number must not hold one of the larger meanwhile.
            if limit is not None:
                _take(held, _sandbox_queries(caller.prefix), limit, TooManySandboxQueries)
        limit = _in_force(own.calls_at_once, settings.ENDPOINTS_CALLS_AT_ONCE)
        if limit is not None:
            _take(held, _calls(caller.prefix), limit, TooManyCalls)
        if is_sandbox_query:
            _refuse_suspended(caller)  # again: the turn waited for may be that of a query that overran
        started = monotonic()
        try:
            yield
        except (QueryTimeout, QueryTooCostly, DatabaseUnavailable) as error:
            # PostgreSQL may also have failed to end it: the connection was then given up, after the timeout.
            has_overrun = not isinstance(error, DatabaseUnavailable) or monotonic() - started >= statement_seconds
            if is_sandbox_query and has_overrun:
                _suspend(caller)
            raise


@contextmanager
def stream_turn(caller: Caller | None) -> Iterator[None]:
    """Count a stream for as long as it runs, beside its `turn`. Raises TooManyStreams at once."""
    limit = settings.ENDPOINTS_STREAMS_AT_ONCE
    if caller is None or limit is None:
        yield
        return
    name = f"streams:{caller.prefix}"
    if not PERMITS.take(name, limit=limit, wait_seconds=0, may_wait=0):
        raise TooManyStreams(limit)
    try:
        yield
    finally:
        PERMITS.give_back(name)


def _take(held: ExitStack, name: str, limit: int, refusal: Callable[[int], LimitReached]) -> None:
    has_turn = PERMITS.take(
        name,
        limit=limit,
        wait_seconds=settings.ENDPOINTS_POOL_WAIT_SECONDS,
        may_wait=settings.ENDPOINTS_POOL_SIZE // 2,  # each who waits keeps a thread from everybody else
    )
    if not has_turn:
        # Of a database that hangs nobody knows what still runs there: it is no fault of the access token.
        raise DatabaseUnavailable if log_servers().primary().liveness.refuses() else refusal(limit)
    held.callback(PERMITS.give_back, name)


def _refuse_suspended(caller: Caller) -> None:
    if not settings.ENDPOINTS_OVERRUN_SECONDS:
        return
    seconds = seconds_suspended(caller.own_id)
    if seconds:
        raise SandboxSuspended(settings.ENDPOINTS_OVERRUN_SECONDS, retry_after_seconds=max(1, ceil(seconds)))


def _suspend(caller: Caller) -> None:
    if settings.ENDPOINTS_OVERRUN_SECONDS:
        suspend(caller.own_id, seconds=settings.ENDPOINTS_OVERRUN_SECONDS)
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
