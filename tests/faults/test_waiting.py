"""Waits are bounded: one slow result holds few threads, and all who wait for work that hangs are answered together."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from tests.live.calls import Answer, Caller, all_at_once, until
from tests.live.installation import Installation

THREADS = 16
SLOW_SECONDS = 6.0
PROMPT_SECONDS = 3.0
LABEL = {"label": "text"}
SLOW = f"SELECT logs.counted(@label, {SLOW_SECONDS}) AS label"
QUICK = "SELECT logs.counted(@label, 0) AS label"
SANDBOX = "WITH numbers AS (SELECT 1 AS one) SELECT one FROM numbers"
COLD_CALLERS = 20
# A connection to the log database is waited for 1.2 s; five times that is the machine's.
COMMON_DEADLINE_SECONDS = 6.0


def test_one_slow_result_asked_for_by_many_leaves_threads_for_the_others(installation: Installation, name: str) -> None:
    slow, quick = f"{name}.slow", f"{name}.quick"
    installation.save(slow, SLOW, parameters=LABEL, cache_seconds=600, statement_timeout_seconds=15)
    installation.save(quick, QUICK, parameters=LABEL, cache_seconds=600)
    with installation.another_web(threads=THREADS) as (_, port), ExitStack() as stack:
        crowd = [stack.enter_context(installation.caller(port=port)) for _ in range(3 * THREADS)]
        other = stack.enter_context(installation.caller(port=port))
        for caller in (*crowd, other):
            assert caller.query(quick, {"label": "known"}).status == 200
        mark = installation.servers.mark()
        with ThreadPoolExecutor(len(crowd)) as pool:
            calls = [pool.submit(caller.query, slow, {"label": name}) for caller in crowd]
            until(lambda: bool(installation.servers.statements(mark, label=name)), seconds=10)
            answers = _of_others(other, quick, seconds=SLOW_SECONDS - 2)
            given = [call.result() for call in calls]
    assert {answer.status for answer in answers} == {200}
    assert max(answer.seconds for answer in answers) < PROMPT_SECONDS
    assert len(installation.servers.statements(mark, label=name)) == 1
    assert {(answer.status, answer.code) for answer in given} == {(200, ""), (503, "overloaded")}
    assert all(int(answer.headers["retry-after"]) > 0 for answer in given if answer.status == 503)
    assert Counter(answer.status for answer in given)[200] >= 2, "the one who runs it, and some who wait"


def _of_others(caller: Caller, quick: str, *, seconds: float) -> list[Answer]:
    """Call for a cached result, for new ones and for a sign of life, again and again."""
    answers: list[Answer] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        answers += [
            caller.query(quick, {"label": "known"}),
            caller.query(quick, {"label": f"new {len(answers)}"}),
            caller.request("GET", "/livez"),
        ]
        time.sleep(0.02)
    return answers


def test_a_log_database_that_hangs_at_a_cold_start_answers_all_at_one_deadline(
    installation: Installation, name: str
) -> None:
    installation.save(name, SANDBOX, sandboxing=True, cache_seconds=0)
    with installation.another_web(threads=COLD_CALLERS + 4) as (_, port), ExitStack() as stack:
        callers = [stack.enter_context(installation.caller(port=port)) for _ in range(COLD_CALLERS)]
        for caller in callers:
            assert caller.query(name).status == 200  # what is known of endpoint and access token, the sandbox not
        with installation.servers.postgres_frozen():
            answers = all_at_once(
                [
                    lambda caller=caller, number=number: caller.query(  # type: ignore[misc]
                        name, {"sql": f"SELECT one + {number} AS n FROM numbers"}
                    )
                    for number, caller in enumerate(callers)
                ]
            )
        assert {(answer.status, answer.code) for answer in answers} == {(503, "database_unavailable")}
        assert max(answer.seconds for answer in answers) < COMMON_DEADLINE_SECONDS
        sql = {"sql": "SELECT one FROM numbers"}
        until(lambda: callers[0].query(name, sql).status == 200, seconds=20, pause=0.2)
