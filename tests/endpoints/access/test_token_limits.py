"""The limits of one access token: which hold, what is refused, what is said, and what they never touch."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import pytest

from config.setting_values import Rate
from endpoints.access import token_limits
from endpoints.access.secrets import NO_LIMIT, Caller, OwnLimits
from endpoints.access.token_limits import admit, limits_in_force, limits_use, turn
from endpoints.cache.connection import ask_for
from endpoints.cache.keys import PREFIX
from endpoints.calling.calls import run_endpoint
from endpoints.calling.query_requests import Call
from endpoints.defining.saving import save_endpoint
from endpoints.errors import (
    DatabaseUnavailable,
    LimitReached,
    QueryTimeout,
    RateLimited,
    SandboxSuspended,
    TooManyCalls,
    TooManySandboxQueries,
)
from endpoints.log_database.servers import log_servers
from endpoints.models import Endpoint
from tests.endpoints.cache.own_redis import OwnRedis
from tests.endpoints.conftest import own_redis, redis_not_met_yet
from tests.live.calls import until

__all__ = ["own_redis", "redis_not_met_yet"]
Clock = Any


@pytest.fixture(autouse=True)
def nobody_waits(settings: Any) -> None:
    log_servers()  # made before, as for all other tests: they keep these pools
    settings.ENDPOINTS_POOL_WAIT_SECONDS = 0.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of rate limits and suspensions; `now` may be set."""

    class Now:
        now = 1000.0

        def __call__(self) -> float:
            return self.now

    clock = Now()
    monkeypatch.setattr(token_limits, "monotonic", clock)
    return clock


def caller(**limits: int) -> Caller:
    """Somebody who has not called yet."""
    return Caller(name="somebody", prefix=uuid4().hex[:12], limits=OwnLimits(**limits))


def begin(stack: ExitStack, caller: Caller, *, is_sandbox_query: bool = False) -> None:
    stack.enter_context(turn(caller, is_sandbox_query=is_sandbox_query, statement_seconds=15))


def overrun(caller: Caller, *, is_sandbox_query: bool = True) -> None:
    with (
        pytest.raises(QueryTimeout),
        turn(caller, is_sandbox_query=is_sandbox_query, statement_seconds=15),
    ):
        raise QueryTimeout(15)


def test_an_access_token_without_limits_of_its_own_has_the_defaults(settings: Any) -> None:
    settings.ENDPOINTS_RATE_LIMIT = Rate(600, 3600)
    limits = limits_in_force(OwnLimits())
    assert (limits.calls, limits.calls_at_once, limits.sandbox_queries_at_once) == (Rate(600, 3600), 6, 4)
    assert limits.calls_at_once < settings.ENDPOINTS_POOL_SIZE


def test_limits_of_its_own_and_none_take_the_place_of_the_defaults(settings: Any) -> None:
    settings.ENDPOINTS_RATE_LIMIT = Rate(600, 3600)
    own = limits_in_force(OwnLimits(5, 3, 2))
    assert (own.calls, own.calls_at_once, own.sandbox_queries_at_once) == (Rate(5, 60), 3, 2)
    none = limits_in_force(OwnLimits(NO_LIMIT, NO_LIMIT, NO_LIMIT))
    assert (none.calls, none.calls_at_once, none.sandbox_queries_at_once) == (None, None, None)


def test_calls_at_the_same_time_are_limited_and_the_refusal_says_how() -> None:
    busy = caller(calls_at_once=2)
    with ExitStack() as stack:
        begin(stack, busy)
        begin(stack, busy)
        with pytest.raises(TooManyCalls) as refused:
            begin(stack, busy)
        begin(stack, caller(calls_at_once=1))
    assert refused.value.status == 429
    assert "2 uncached calls running at the same time" in refused.value.message
    figures = {"limit": "calls_at_once", "value": 2, "remaining": 0, "retry_after_seconds": 1}
    assert refused.value.details == (figures,)
    assert refused.value.headers == {
        "Retry-After": "1",
        "RateLimit-Policy": '"calls_at_once";q=2;qu="concurrent-requests"',
        "RateLimit": '"calls_at_once";r=0;t=1',
    }
    with ExitStack() as stack:
        begin(stack, busy)
        begin(stack, busy)


def test_sandbox_queries_are_limited_beside_other_calls() -> None:
    busy = caller(calls_at_once=3, sandbox_queries_at_once=1)
    with ExitStack() as stack:
        begin(stack, busy, is_sandbox_query=True)
        with pytest.raises(TooManySandboxQueries) as refused:
            begin(stack, busy, is_sandbox_query=True)
        begin(stack, busy)
        begin(stack, busy)
        with pytest.raises(TooManyCalls):
            begin(stack, busy)
    figures = {"limit": "sandbox_queries_at_once", "value": 1, "remaining": 0, "retry_after_seconds": 1}
    assert refused.value.details == (figures,)


def test_a_refused_call_leaves_nothing_behind() -> None:
    busy = caller(calls_at_once=1, sandbox_queries_at_once=1)
    with ExitStack() as stack:
        begin(stack, busy)
        for _ in range(3):
            with pytest.raises(TooManyCalls):
                begin(stack, busy, is_sandbox_query=True)
    with ExitStack() as stack:
        begin(stack, busy, is_sandbox_query=True)


def test_neither_the_operator_nor_who_has_no_limits_is_counted() -> None:
    free = caller(calls_at_once=NO_LIMIT, sandbox_queries_at_once=NO_LIMIT)
    with ExitStack() as stack:
        for _ in range(50):
            begin(stack, free, is_sandbox_query=True)
            stack.enter_context(turn(None, is_sandbox_query=True, statement_seconds=15))
    assert limits_use(free.prefix, free.limits).running == 0


def test_calls_a_minute_say_when_to_come_back() -> None:
    often = caller(calls_a_minute=2)
    admit(often)
    admit(often)
    with pytest.raises(RateLimited) as refused:
        admit(often)
    (detail,) = refused.value.details
    assert (detail["limit"], detail["value"]) == ("calls_a_minute", 2)
    assert (detail["remaining"], detail["window_seconds"]) == (0, 60)
    seconds = refused.value.headers["Retry-After"]
    assert refused.value.headers == {
        "Retry-After": str(detail["retry_after_seconds"]),
        "RateLimit-Policy": '"calls_a_minute";q=2;w=60',
        "RateLimit": f'"calls_a_minute";r=0;t={seconds}',
    }
    assert 1 <= int(seconds) <= 60
    admit(caller(calls_a_minute=1))


def test_an_overrun_suspends_the_sandbox_queries_of_its_access_token_for_a_while(clock: Clock) -> None:
    heavy = caller()
    overrun(heavy)
    clock.now += 10.2
    with ExitStack() as stack, pytest.raises(SandboxSuspended) as refused:
        begin(stack, heavy, is_sandbox_query=True)
    assert refused.value.code == "sandbox_suspended"
    assert refused.value.headers == {
        "Retry-After": "20",
        "RateLimit-Policy": '"overrun_seconds";q=0;w=30',
        "RateLimit": '"overrun_seconds";r=0;t=20',
    }
    figures = {"limit": "overrun_seconds", "value": 30.0, "remaining": 0, "retry_after_seconds": 20}
    assert refused.value.details == (figures,)
    with ExitStack() as stack:
        begin(stack, heavy)
        begin(stack, caller(), is_sandbox_query=True)


def test_a_suspension_ends(clock: Clock, settings: Any) -> None:
    settings.ENDPOINTS_OVERRUN_SECONDS = 0.001  # also over for Redis before it is asked
    heavy = caller()
    overrun(heavy)
    clock.now += 60
    until(lambda: not token_limits._seconds_noted(heavy.prefix), seconds=60)
    with ExitStack() as stack:
        begin(stack, heavy, is_sandbox_query=True)


def test_a_clock_of_redis_that_was_ahead_suspends_and_limits_nobody_for_longer(clock: Clock, settings: Any) -> None:
    somebody = caller(calls_a_minute=1)
    overrun(somebody)
    suspended, counted = f"{PREFIX}:suspended:{somebody.prefix}", f"{PREFIX}:rate:{somebody.prefix}:60"
    assert token_limits.seconds_until_admitted(somebody.prefix, calls=1, window_seconds=60) == 0
    for name in (suspended, counted):
        assert ask_for("PEXPIRE", name, 86_400_000) == 1
    clock.now += settings.ENDPOINTS_OVERRUN_SECONDS + 1
    assert 0 < token_limits.seconds_suspended(somebody.prefix) <= settings.ENDPOINTS_OVERRUN_SECONDS
    assert 0 < token_limits.seconds_until_admitted(somebody.prefix, calls=1, window_seconds=60) <= 60
    assert ask_for("PTTL", suspended) <= settings.ENDPOINTS_OVERRUN_SECONDS * 1000


def test_other_processes_keep_a_suspension_too(clock: Clock) -> None:
    heavy = caller()
    overrun(heavy)
    token_limits._suspensions.clear()  # as a process knows it that was not there
    with ExitStack() as stack, pytest.raises(SandboxSuspended):
        begin(stack, heavy, is_sandbox_query=True)


def test_a_process_learns_of_a_suspension_within_a_tenth_of_a_second(clock: Clock) -> None:
    heavy = caller()
    assert token_limits.seconds_suspended(heavy.prefix) == 0
    ask_for("SET", token_limits._suspension_key(heavy.prefix), 1, "PX", 30_000)
    assert token_limits.seconds_suspended(heavy.prefix) == 0
    clock.now += 0.1
    assert 29 < token_limits.seconds_suspended(heavy.prefix) <= 30


def test_a_query_that_postgresql_did_not_end_in_time_is_an_overrun_too() -> None:
    heavy, unlucky = caller(), caller()
    for who, statement_seconds in ((heavy, 0.0), (unlucky, 3600.0)):
        with (
            pytest.raises(DatabaseUnavailable),
            turn(who, is_sandbox_query=True, statement_seconds=statement_seconds),
        ):
            raise DatabaseUnavailable
    assert token_limits.seconds_suspended(heavy.prefix) > 0
    assert token_limits.seconds_suspended(unlucky.prefix) == 0


def test_a_stored_query_that_overruns_suspends_nobody(settings: Any) -> None:
    slow, allowed = caller(), caller()
    overrun(slow, is_sandbox_query=False)
    settings.ENDPOINTS_OVERRUN_SECONDS = 0.0
    overrun(allowed)
    with ExitStack() as stack:
        begin(stack, slow, is_sandbox_query=True)
        begin(stack, allowed, is_sandbox_query=True)


def test_without_redis_the_same_limits_hold_in_this_process(
    redis_not_met_yet: None, own_redis: OwnRedis, clock: Clock
) -> None:
    own_redis.kill()
    busy = caller(calls_a_minute=2, calls_at_once=2, sandbox_queries_at_once=1)
    admit(busy)
    admit(busy)
    with pytest.raises(RateLimited) as refused:
        admit(busy)
    assert refused.value.headers["RateLimit"] == '"calls_a_minute";r=0;t=60'
    clock.now += 60
    admit(busy)
    with ExitStack() as stack:
        begin(stack, busy, is_sandbox_query=True)
        with pytest.raises(TooManySandboxQueries):
            begin(stack, busy, is_sandbox_query=True)
        begin(stack, busy)
        with pytest.raises(TooManyCalls):
            begin(stack, busy)
    overrun(busy)
    with ExitStack() as stack, pytest.raises(SandboxSuspended):
        begin(stack, busy, is_sandbox_query=True)


@pytest.fixture
def cached(db: None) -> Endpoint:
    return save_endpoint(Endpoint(name="test.limited", sql="SELECT random()::text AS run", cache_seconds=60), [])


def test_an_answer_from_the_cache_takes_no_turn(cached: Endpoint) -> None:
    busy = caller(calls_at_once=1)
    with ExitStack() as stack:
        begin(stack, busy)
        with pytest.raises(TooManyCalls):
            run_endpoint("test.limited", call=Call(), caller=busy)
        first = run_endpoint("test.limited", call=Call(), caller=caller())
        assert run_endpoint("test.limited", call=Call(), caller=busy).outcome == first.outcome


def test_a_limit_never_keeps_others_from_a_result(cached: Endpoint) -> None:
    """The refused caller led the single flight; who waited, or comes later, gets rows."""
    busy = caller(calls_at_once=1)
    with ExitStack() as stack:
        begin(stack, busy)
        with pytest.raises(LimitReached):
            run_endpoint("test.limited", call=Call(), caller=busy)
    assert run_endpoint("test.limited", call=Call(), caller=caller()).served.state == "miss"


def test_an_expired_result_is_better_than_a_refusal(cached: Endpoint, settings: Any) -> None:
    busy = caller(calls_at_once=1)
    first = run_endpoint("test.limited", call=Call(), caller=busy)
    (entry,) = ask_for("KEYS", f"{PREFIX}:entry:{cached.pk.hex}:*")
    ask_for("PEXPIRE", entry, settings.ENDPOINTS_STALE_SECONDS * 1000 // 2)
    with ExitStack() as stack:
        begin(stack, busy)
        stale = run_endpoint("test.limited", call=Call(), caller=busy)
    assert (stale.served.state, stale.outcome) == ("stale", first.outcome)
