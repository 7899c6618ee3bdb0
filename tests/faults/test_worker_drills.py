"""Workers killed in the middle of their work: somebody else takes over, after the lease at the latest."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

from tests.live.calls import Answer, until
from tests.live.installation import Installation

LABEL = {"label": "text"}
# The service adds this much to the statement timeout (and to a warm run's time) before others may take over.
LEASE_MARGIN_SECONDS = 10


def test_another_run_takes_over_from_a_celery_worker_killed_in_a_warm_run(
    installation: Installation, name: str
) -> None:
    sets = [f"{name} {number}" for number in range(10)]
    installation.save(
        name,
        "SELECT logs.counted(@label, 0.1) AS label",
        parameters=LABEL,
        cache_seconds=60,
        warm_every_seconds=2,
        statement_timeout_seconds=1,
    )
    lease_seconds = 1 + 1 + LEASE_MARGIN_SECONDS
    answers: list[Answer] = []
    over = Event()

    def warmed(mark: int) -> list[str]:
        return [statement.label for statement in installation.servers.statements(mark, label=name)]

    def poll() -> None:
        with installation.caller() as caller:
            while not over.wait(0.1):
                answers.extend(caller.query(name, {"label": label}) for label in sets)

    with installation.caller() as caller, ThreadPoolExecutor(1) as pool:
        for label in sets:
            assert caller.query(name, {"label": label}).status == 200
        polling = pool.submit(poll)
        try:
            time.sleep(1)
            mark = installation.servers.mark()
            with installation.worker(ENDPOINTS_WARM_SECONDS="1"), installation.beat():
                until(lambda: len(warmed(mark)) >= 2, seconds=20, pause=0.02)
            killed_at = time.time()
            assert len(warmed(mark)) < len(sets)
            mark = installation.servers.mark()
            with installation.worker(ENDPOINTS_WARM_SECONDS="1"), installation.beat():
                until(
                    lambda: (
                        len({each.label for each in installation.servers.statements(mark, label=name)}) == len(sets)
                    ),
                    seconds=lease_seconds + 10,
                )
        finally:
            over.set()
        polling.result()
    taken_over_at = installation.servers.statements(mark, label=name)[0].second
    assert taken_over_at - killed_at < lease_seconds + 2 + 2  # the next run, and the scheduler's second
    assert {(answer.status, answer.cache) for answer in answers} == {(200, "hit")}


def test_who_waits_for_a_killed_web_process_is_answered_after_the_lease(installation: Installation, name: str) -> None:
    installation.save(
        name,
        "SELECT logs.counted(@label, 0.7) AS label, 42 AS answer",
        parameters=LABEL,
        cache_seconds=600,
        statement_timeout_seconds=1,
    )

    def call(port: int) -> Callable[[], Answer]:
        def query() -> Answer:
            with installation.caller(port=port) as caller:
                return caller.query(name, {"label": name})

        return query

    mark = installation.servers.mark()
    with ThreadPoolExecutor(9) as pool, installation.another_web() as (web, port):
        runner = pool.submit(call(port))
        until(lambda: bool(installation.servers.statements(mark, label=name)), seconds=5, pause=0.01)
        waiters = [pool.submit(call(installation.port)) for _ in range(8)]
        time.sleep(0.3)
        assert not any(waiter.done() for waiter in waiters)
        web.kill()
        assert isinstance(runner.exception(), OSError)
        answers = [waiter.result() for waiter in waiters]
    assert {answer.body for answer in answers} == {b'{"result":[{"label":"%s","answer":42}]}' % name.encode()}
    assert {answer.status for answer in answers} == {200}
    assert max(answer.seconds for answer in answers) < 1 + LEASE_MARGIN_SECONDS + 2
    # The killed one's and one in its place, although eight were waiting.
    assert len(installation.servers.statements(mark, label=name)) == 2
