"""What one access token does leaves the others their answers: its calls have limits of their own."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.faults.conftest import CACHED, PLAIN
from tests.live.calls import REACHES_EVERY_PROCESS, Answer, all_at_once, until
from tests.live.installation import Installation

ATTACKERS = 40
ATTACK_SECONDS = 4.0
CALM_SECONDS = 0.02  # between two looks of the others, or the drill itself would be the load
SLOW_SECONDS = 3
# Sorts and joins of its own making, which run until the statement timeout; PostgreSQL can cancel it at any moment.
HEAVY = "select count(*) as n from t a, t b, t c where a.n + b.n + c.n = -1"
NUMBERS = "WITH t AS (SELECT n FROM generate_series(1, 3000) AS n) SELECT count(*) AS n FROM t"


@pytest.fixture
def sandbox(installation: Installation, name: str) -> str:
    """An endpoint whose table is large enough for a sandbox query that takes as long as it may."""
    installation.save(name, NUMBERS, cache_seconds=0, sandboxing=True, statement_timeout_seconds=SLOW_SECONDS)
    for _ in range(REACHES_EVERY_PROCESS):  # each looks at what the sandbox relies on before its first query
        with installation.caller() as caller:
            assert caller.query(name, {"sql": "select count(*) as n from t"}).rows == [{"n": 3000}]
    return name


@contextmanager
def attacked(installation: Installation, endpoint: str, secret: str) -> Iterator[list[Future[Counter[str]]]]:
    """Each attacker sends the heavy query again as soon as it is answered, on one connection, for a while."""
    begun = threading.Barrier(ATTACKERS + 1)

    def attack(number: int) -> Counter[str]:
        codes: Counter[str] = Counter()
        with installation.caller(secret=secret) as caller:
            caller.request("GET", "/livez")
            begun.wait()
            ends_at = time.monotonic() + ATTACK_SECONDS
            while time.monotonic() < ends_at:
                answer = caller.query(endpoint, {"sql": f"{HEAVY} - {number}"})
                codes[answer.code or "ok"] += 1
                time.sleep(0.05)
        return codes

    with ThreadPoolExecutor(ATTACKERS) as pool:
        attacks = [pool.submit(attack, number) for number in range(ATTACKERS)]
        begun.wait()
        yield attacks


def statements_running(installation: Installation) -> int:
    """Return how many sandbox queries PostgreSQL is running at this moment."""
    running = (
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SELECT result.%byte budget%'"
    )
    return int(str(installation.servers.value(running)))


def test_forty_sandbox_queries_of_one_access_token_leave_the_others_their_answers(
    installation: Installation, name: str, sandbox: str
) -> None:
    attacker = installation.console.do("issue", name=f"{name} attacker", limits={})
    other = installation.console.do("issue", name=f"{name} other", limits={})
    seen: list[Answer] = []
    most = 0
    with attacked(installation, sandbox, attacker) as attacks:
        until(lambda: statements_running(installation) > 0, seconds=5)
        while not all(attack.done() for attack in attacks):
            most = max(most, statements_running(installation))
            with installation.caller(secret=other) as caller:
                seen += [caller.query(PLAIN), caller.query(CACHED), caller.request("GET", "/readyz")]
            time.sleep(CALM_SECONDS)
    assert len(seen) >= 30
    assert [answer.body for answer in seen if answer.status != 200] == []
    assert 1 <= most <= 4
    codes = sum((attack.result() for attack in attacks), Counter[str]())
    assert codes.keys() <= {"query_timeout", "too_many_sandbox_queries", "sandbox_suspended"}
    # The first ones, and what the other process began before it heard of them.
    assert 1 <= codes["query_timeout"] <= 8, codes
    assert codes["sandbox_suspended"] >= ATTACKERS / 2


def test_sandbox_queries_of_many_access_tokens_leave_connections_to_fast_path(
    installation: Installation, name: str, sandbox: str
) -> None:
    unlimited = installation.console.do("issue", name=f"{name} unlimited")
    seen: list[Answer] = []
    with attacked(installation, sandbox, unlimited) as attacks:
        until(lambda: statements_running(installation) >= 6, seconds=5)
        while not all(attack.done() for attack in attacks):
            with installation.caller() as caller:
                seen += [caller.query(PLAIN), caller.request("GET", "/readyz")]
            time.sleep(CALM_SECONDS)
    assert [answer.body for answer in seen if answer.status != 200] == []
    codes = sum((attack.result() for attack in attacks), Counter[str]())
    assert codes.keys() <= {"query_timeout", "overloaded", "sandbox_suspended"}


def test_a_crowd_that_wants_one_result_is_not_too_many_calls(installation: Installation, name: str) -> None:
    sql = "SELECT logs.counted(@label, 0.5) AS label"
    installation.save(name, sql, parameters={"label": "text"}, cache_seconds=600, statement_timeout_seconds=10)
    secret = installation.console.do("issue", name=f"{name} crowd", limits={"calls_at_once": 2})
    mark = installation.servers.mark()

    def call() -> Answer:
        with installation.caller(secret=secret) as caller:
            return caller.query(name, {"label": name})

    assert Counter(answer.status for answer in all_at_once([call] * 60)) == {200: 60}
    assert len(installation.servers.statements(mark, label=name)) == 1


def test_calls_at_the_same_time_are_counted_over_all_processes(installation: Installation, name: str) -> None:
    sql = "SELECT logs.counted(@label, 2) AS label"
    installation.save(name, sql, parameters={"label": "text"}, cache_seconds=0, statement_timeout_seconds=10)
    secret = installation.console.do("issue", name=f"{name} busy", limits={"calls_at_once": 3})
    mark = installation.servers.mark()

    def call() -> Answer:
        with installation.caller(secret=secret) as caller:
            return caller.query(name, {"label": name})

    answers = all_at_once([call] * 24)
    assert Counter(answer.status for answer in answers) == {200: 3, 429: 21}
    refused = next(answer for answer in answers if answer.status == 429)
    assert refused.code == "too_many_calls"
    assert refused.error["details"] == [
        {"limit": "calls_at_once", "value": 3, "remaining": 0, "retry_after_seconds": 1}
    ]
    assert refused.headers["retry-after"] == "1"
    assert len(installation.servers.statements(mark, label=name)) == 3
