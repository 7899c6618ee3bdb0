"""PostgreSQL killed, stopped, refusing: what is cached is answered, the rest fails fast, and both end by themselves."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass

import pytest

from tests.live.calls import REACHES_EVERY_PROCESS, Answer, until
from tests.live.installation import Installation
from tests.live.servers import Servers

LABEL = {"label": "text"}
SQL = "SELECT logs.counted(@label, 0) AS label, 42 AS answer"
SLOWEST_SECONDS = 2.0
BACK_SECONDS = 5.0
OUTAGE_SECONDS = 2.5

Outage = Callable[[Servers], AbstractContextManager[None]]
each_outage = pytest.mark.parametrize(
    "outage", [Servers.postgres_killed, Servers.postgres_frozen, Servers.postgres_refusing]
)


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Endpoints that every web process has answered a moment ago: one with a fresh result, one expired, one without."""

    cached: str
    expired: str
    plain: str


@pytest.fixture
def endpoints(installation: Installation, name: str) -> Endpoints:
    made = Endpoints(cached=f"{name}.cached", expired=f"{name}.expired", plain=f"{name}.plain")
    for endpoint, cache_seconds in ((made.cached, 600), (made.expired, 1), (made.plain, 0)):
        installation.save(endpoint, SQL, parameters=LABEL, cache_seconds=cache_seconds, statement_timeout_seconds=5)
    with ExitStack() as stack:
        for _ in range(12):
            caller = stack.enter_context(installation.caller())
            for endpoint in (made.cached, made.expired, made.plain):
                assert caller.query(endpoint, {"label": "known"}).body == BODY
        assert len(installation.connections_per_worker()) == 2
    time.sleep(1.1)
    return made


BODY = b'{"result":[{"label":"known","answer":42}]}'


def call_for(installation: Installation, endpoint: str, label: str, *, seconds: float) -> list[Answer]:
    """Call again and again, on new connections now and then, so that each web process is met."""
    answers: list[Answer] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with installation.caller() as caller:
            answers += [caller.query(endpoint, {"label": label}) for _ in range(4)]
            time.sleep(0.02)
    return answers


@each_outage
def test_cached_answers_go_on_and_the_rest_fails_fast(
    installation: Installation, endpoints: Endpoints, outage: Outage
) -> None:
    works = {
        "cached": (endpoints.cached, "known"),
        "expired": (endpoints.expired, "known"),
        "unknown argument": (endpoints.cached, "unknown"),
        "not cached": (endpoints.plain, "known"),
    }
    with outage(installation.servers), ThreadPoolExecutor(2 * len(works)) as pool:
        running = {
            work: [pool.submit(call_for, installation, endpoint, label, seconds=OUTAGE_SECONDS) for _ in range(2)]
            for work, (endpoint, label) in works.items()
        }
        answers = {work: [answer for each in calls for answer in each.result()] for work, calls in running.items()}

    for work, expected in (("cached", "hit"), ("expired", "stale")):
        seen = {(answer.status, answer.body, answer.cache) for answer in answers[work]}
        assert seen == {(200, BODY, expected)}, work
    for work in ("unknown argument", "not cached"):
        assert {(answer.status, answer.code) for answer in answers[work]} == {(503, "database_unavailable")}, work
        assert all(int(answer.headers["retry-after"]) > 0 for answer in answers[work])
    for work, given in answers.items():
        assert len(given) >= 8
        assert max(answer.seconds for answer in given) < SLOWEST_SECONDS, work
    # Nearly all of them at once: an outage is noticed, not waited for by each call anew.
    assert sorted(answer.seconds for answer in answers["cached"])[len(answers["cached"]) * 9 // 10] < 0.3

    until(lambda: in_order(installation, endpoints), seconds=BACK_SECONDS, pause=0.2)


def in_order(installation: Installation, endpoints: Endpoints) -> bool:
    """Tell whether every web process answers as if nothing had been."""
    for _ in range(REACHES_EVERY_PROCESS):
        with installation.caller() as caller:
            for endpoint, states in ((endpoints.cached, {"hit"}), (endpoints.plain, {"bypass"})):
                answer = caller.query(endpoint, {"label": "known"})
                if (answer.status, answer.body) != (200, BODY) or answer.cache not in states:
                    return False
            expired = caller.query(endpoints.expired, {"label": "known"})
            if (expired.status, expired.body) != (200, BODY) or expired.cache not in {"hit", "miss"}:
                return False
    return True


@each_outage
def test_nobody_gets_in_while_postgres_is_away(
    installation: Installation, endpoints: Endpoints, name: str, outage: Outage
) -> None:
    revoked = installation.console.do("issue", name=name)
    with installation.caller(secret=revoked) as caller:
        assert caller.query(endpoints.cached, {"label": "known"}).status == 200
    installation.console.do("revoke", name=name)
    limited = installation.console.do("issue", name=f"{name} limited", endpoint_names=[endpoints.plain])
    for _ in range(REACHES_EVERY_PROCESS):
        with installation.caller(secret=limited) as caller:
            assert caller.query(endpoints.cached, {"label": "known"}).status == 404
    with outage(installation.servers):
        for _ in range(REACHES_EVERY_PROCESS):
            for secret, allowed in ((revoked, {401, 503}), ("lqe_" + "0" * 40, {401, 503}), (limited, {404, 503})):
                with installation.caller(secret=secret) as caller:
                    answer = caller.query(endpoints.cached, {"label": "known"})
                assert answer.status in allowed
                assert answer.error["message"]
                assert answer.seconds < SLOWEST_SECONDS


@each_outage
def test_the_first_save_afterwards_works(installation: Installation, endpoints: Endpoints, outage: Outage) -> None:
    with outage(installation.servers):
        time.sleep(0.5)
    until(lambda: in_order(installation, endpoints), seconds=BACK_SECONDS, pause=0.2)
    installation.save(endpoints.cached, "SELECT @label::text AS label, 43 AS answer", parameters=LABEL)
    with installation.caller() as caller:
        assert caller.query(endpoints.cached, {"label": "known"}).rows == [{"label": "known", "answer": 43}]


def test_a_statement_under_way_ends_when_postgres_stops(installation: Installation, name: str) -> None:
    installation.save(name, "SELECT logs.counted(@label, 8) AS label", parameters=LABEL, statement_timeout_seconds=20)
    mark = installation.servers.mark()
    with ThreadPoolExecutor(1) as pool, installation.caller() as caller:
        call = pool.submit(caller.query, name, {"label": name})
        until(lambda: bool(installation.servers.statements(mark, label=name)), seconds=5)
        frozen_at = time.monotonic()
        with installation.servers.postgres_frozen():
            assert call.result().code == "database_unavailable"
            assert time.monotonic() - frozen_at < SLOWEST_SECONDS
