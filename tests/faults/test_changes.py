"""A change counts for every web process from the moment the process that made it has returned."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

import pytest

from tests.live.calls import Answer, Caller
from tests.live.installation import Installation

CALLERS = 12
WAITING_CALLS = 8  # of one process with 16 threads
CHANGES = 25


class Turn:
    """Which change was begun last and which is done: what may be seen lies in between."""

    def __init__(self) -> None:
        self.begun = 0
        self.done = 0

    def change(self, number: int, work: Callable[[], object]) -> None:
        self.begun = number
        work()
        self.done = number


@dataclass(frozen=True, slots=True)
class Seen:
    """An answer, and the changes of which it may show any: those from `first` to `last`."""

    answer: Answer
    first: int
    last: int


@contextmanager
def hammering(callers: list[Caller], turn: Turn, call: Callable[[Caller], Answer]) -> Iterator[list[Seen]]:
    """Let every caller call without pause while the block runs; what was seen is complete after it."""
    seen: list[Seen] = []
    over = threading.Event()

    def hammer(caller: Caller) -> None:
        while not over.is_set():
            first = turn.done
            answer = call(caller)
            seen.append(Seen(answer, first, turn.begun))

    with ThreadPoolExecutor(len(callers)) as pool:
        threads = [pool.submit(hammer, caller) for caller in callers]
        try:
            yield seen
        finally:
            over.set()
        for thread in threads:
            thread.result()


@pytest.fixture
def open_callers(installation: Installation) -> Iterator[Callable[[str], list[Caller]]]:
    """Make callers with an access token whose connections are open, and shared by both web processes."""
    with ExitStack() as stack:

        def make(secret: str) -> list[Caller]:
            while True:
                with ExitStack() as unshared:
                    callers = [unshared.enter_context(installation.caller(secret=secret)) for _ in range(CALLERS)]
                    for caller in callers:
                        caller.request("GET", "/livez")
                    shares = installation.connections_per_worker()
                    # The kernel chooses the process. More of one than may wait for a result would be sent away.
                    if len(shares) == 2 and max(shares.values()) < WAITING_CALLS:
                        stack.push(unshared.pop_all())
                        return callers

        yield make


OpenCallers = Callable[[str], list[Caller]]


@pytest.mark.parametrize("cache_seconds", [0, 600])
def test_no_old_version_and_no_old_redaction_after_a_save(
    installation: Installation, name: str, open_callers: OpenCallers, cache_seconds: int
) -> None:
    def save(number: int) -> None:
        installation.save(
            name,
            f"SELECT {number} AS saved, 'mail from a.b@example.org' AS message",
            cache_seconds=cache_seconds,
            redact_pii=number % 2 == 1,
        )

    def has_expected(answer: Answer, number: int) -> bool:
        message = "mail from REDACTED" if number % 2 else "mail from a.b@example.org"
        return answer.rows == [{"saved": number, "message": message}]

    turn = Turn()
    save(0)
    callers = open_callers(installation.secret)
    with hammering(callers, turn, lambda caller: caller.query(name)) as seen:
        for number in range(1, CHANGES + 1):
            turn.change(number, lambda number=number: save(number))
            # The first calls after the save, one in each process at least.
            for caller in [installation.caller() for _ in range(4)]:
                with caller:
                    assert has_expected(caller.query(name), number)
    for each in seen:
        assert any(has_expected(each.answer, number) for number in range(each.first, each.last + 1)), each
    assert len({each.answer.body for each in seen}) > CHANGES / 2


def test_no_answer_after_a_deletion(installation: Installation, name: str, open_callers: OpenCallers) -> None:
    callers = open_callers(installation.secret)
    for _ in range(5):
        turn = Turn()
        installation.save(name, "SELECT 1 AS one", cache_seconds=600)
        with hammering(callers, turn, lambda caller: caller.query(name)) as seen:
            with installation.caller() as another:
                assert another.query(name).status == 200
            turn.change(1, lambda: installation.console.do("delete", name=name))
            for _ in range(4):
                with installation.caller() as another:
                    assert another.query(name).code == "endpoint_not_found"
        statuses = {0: {200}, 1: {404}}
        for each in seen:
            assert each.answer.status in set().union(*(statuses[n] for n in range(each.first, each.last + 1))), each
        assert {each.answer.status for each in seen} == {200, 404}


def test_no_call_beyond_what_the_access_token_may_reach_now(
    installation: Installation, name: str, open_callers: OpenCallers
) -> None:
    for endpoint in (f"{name}.a", f"{name}.b"):
        installation.save(endpoint, "SELECT 1 AS one", cache_seconds=600)
    secret = installation.console.do("issue", name=name, endpoint_names=[f"{name}.a"])
    turn = Turn()
    with hammering(open_callers(secret), turn, lambda caller: caller.query(f"{name}.a")) as seen:
        for number in range(1, CHANGES + 1):
            reach = [f"{name}.b" if number % 2 else f"{name}.a"]
            turn.change(number, lambda reach=reach: installation.console.do("edit", name=name, endpoints=reach))
            for _ in range(3):
                with installation.caller(secret=secret) as caller:
                    assert caller.query(f"{name}.a").status == (404 if number % 2 else 200)
    for each in seen:
        expected = {404 if number % 2 else 200 for number in range(each.first, each.last + 1)}
        assert each.answer.status in expected, each
    assert {each.answer.status for each in seen} == {200, 404}


def test_no_argument_beyond_what_the_access_token_is_bound_to_now(
    installation: Installation, name: str, open_callers: OpenCallers
) -> None:
    installation.save(name, "SELECT @label::text AS label", parameters={"label": "text"}, cache_seconds=600)
    secret = installation.console.do("issue", name=name, bound_arguments={"label": "0"})
    turn = Turn()
    with hammering(open_callers(secret), turn, lambda caller: caller.query(name)) as seen:
        for number in range(1, CHANGES + 1):
            arguments = {"label": str(number)}
            turn.change(
                number,
                lambda arguments=arguments: installation.console.do("edit", name=name, bound_arguments=arguments),
            )
    for each in seen:
        assert each.first <= int(each.answer.rows[0]["label"]) <= each.last, each


@pytest.mark.parametrize("command", ["revoke", "expire"])
def test_no_call_after_the_end_of_an_access_token(installation: Installation, name: str, command: str) -> None:
    installation.save(name, "SELECT 1 AS one", cache_seconds=600)
    for number in range(5):
        token = f"{name} {number}"
        secret = installation.console.do("issue", name=token)
        turn = Turn()
        with ExitStack() as stack:
            callers = [stack.enter_context(installation.caller(secret=secret)) for _ in range(CALLERS)]
            with hammering(callers, turn, lambda caller: caller.query(name)) as seen:
                with installation.caller(secret=secret) as another:
                    assert another.query(name).status == 200
                turn.change(1, lambda token=token: installation.console.do(command, name=token))
                for _ in range(4):
                    with installation.caller(secret=secret) as another:
                        assert another.query(name).code == "not_authenticated"
        for each in seen:
            allowed = {200} if each.last == 0 else {401} if each.first == 1 else {200, 401}
            assert each.answer.status in allowed, each
        assert {each.answer.status for each in seen} == {200, 401}


def test_a_purge_that_has_returned_leaves_no_older_result(
    installation: Installation, name: str, open_callers: OpenCallers
) -> None:
    installation.servers.execute(f'CREATE SEQUENCE logs."{name}"; GRANT SELECT ON logs."{name}" TO query_reader')
    # What is in the database changes, the endpoint does not: only a purge shows it. Each run takes long enough to be
    # under way with the older state during a purge.
    sql = f"""SELECT last_value AS state, logs.counted('{name}', 0.05) FROM logs."{name}" """
    installation.save(name, sql, cache_seconds=600)
    turn = Turn()

    def change(number: int) -> None:
        installation.servers.execute(f"SELECT setval('logs.\"{name}\"', {number})")
        with installation.caller() as caller:
            assert caller.purge(name).status == 200

    with hammering(open_callers(installation.secret), turn, lambda caller: caller.query(name)) as seen:
        for number in range(2, CHANGES + 2):
            turn.change(number, partial(change, number))
            # Now and then the next purge comes while the callers' run is under way.
            time.sleep(0.02 if number % 2 else 0.12)
    for each in seen:
        assert max(1, each.first) <= each.answer.rows[0]["state"] <= max(1, each.last), each
    assert len({each.answer.rows[0]["state"] for each in seen if each.answer.cache == "hit"}) >= CHANGES / 2 - 2
