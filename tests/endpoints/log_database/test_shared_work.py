"""Work that many need is done once: all get its result, or the same failure at the same moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager

import psycopg
import pytest

from endpoints.errors import DatabaseUnavailable
from endpoints.log_database import shared_work
from endpoints.log_database.shared_work import SharedWork
from tests.live.calls import until

CALLERS = 20


class Work:
    """Work that counts how often it is done and ends when it is told to."""

    def __init__(self) -> None:
        self.runs = 0
        self.threads: list[str] = []
        self.fails: Exception | None = None
        self.began = threading.Event()
        self.may_end = threading.Event()

    def __call__(self) -> int:
        self.runs += 1
        self.threads.append(threading.current_thread().name)
        self.began.set()
        assert self.may_end.wait(20)
        if self.fails is not None:
            raise self.fails
        return self.runs


@pytest.fixture
def work() -> Iterator[Work]:
    work = Work()
    yield work
    work.may_end.set()


@pytest.fixture
def callers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(CALLERS, thread_name_prefix="caller") as pool:
        yield pool


def all_ask(shared: SharedWork[int], work: Work, callers: ThreadPoolExecutor) -> list[Future[int]]:
    """Have many ask; every one waits before the work ends."""
    asked = threading.Semaphore(0)
    attempts = shared._join

    def ask() -> int:
        return shared.result()

    def joined() -> object:
        try:
            return attempts()
        finally:
            asked.release()

    shared._join = joined  # type: ignore[method-assign, assignment]
    calls = [callers.submit(ask) for _ in range(CALLERS)]
    for _ in range(CALLERS):
        assert asked.acquire(timeout=20)
    assert work.began.wait(20)
    return calls


@pytest.fixture(params=[False, True], ids=["by the first caller", "in the background"])
def make(request: pytest.FixtureRequest, work: Work) -> Callable[[float], SharedWork[int]]:
    return lambda seconds: SharedWork("test", work, seconds=seconds, in_background=request.param)


def test_many_callers_share_one_run(
    make: Callable[[float], SharedWork[int]], work: Work, callers: ThreadPoolExecutor
) -> None:
    calls = all_ask(make(60.0), work, callers)
    work.may_end.set()
    assert [call.result(20) for call in calls] == [1] * CALLERS


@pytest.mark.parametrize(
    "failure",
    [DatabaseUnavailable(retry_after_seconds=7, reason="no route"), psycopg.OperationalError("gone")],
    ids=["of ours", "of psycopg"],
)
def test_many_callers_share_one_failure(
    make: Callable[[float], SharedWork[int]], work: Work, callers: ThreadPoolExecutor, failure: Exception
) -> None:
    work.fails = failure
    calls = all_ask(make(60.0), work, callers)
    work.may_end.set()
    failures = [call.exception(20) for call in calls]
    assert {type(each) for each in failures} == {type(failure)}
    assert len({id(each) for each in failures}) == CALLERS, "each raises its own"
    assert {str(each) for each in failures} == {str(failure)}
    assert all(vars(each) == vars(failure) for each in failures if isinstance(each, DatabaseUnavailable))
    assert work.runs == 1


def test_a_failure_is_everybodys_for_a_moment_and_then_tried_again(
    make: Callable[[float], SharedWork[int]], work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(shared_work, "monotonic", lambda: now)
    shared = make(60.0)
    work.may_end.set()
    work.fails = DatabaseUnavailable()
    for _ in range(5):
        with pytest.raises(DatabaseUnavailable):
            shared.result()
    assert work.runs == 1
    now += shared_work.FAILURE_SECONDS
    work.fails = None
    assert shared.result() == 2
    assert shared.result() == 3, "a result is not kept"


def test_nobody_waits_for_work_that_hangs_beyond_the_deadline(work: Work, callers: ThreadPoolExecutor) -> None:
    shared: SharedWork[int] = SharedWork("test", work, seconds=0.2, in_background=True)
    calls = all_ask(shared, work, callers)
    assert {type(call.exception(20)) for call in calls} == {DatabaseUnavailable}
    with pytest.raises(DatabaseUnavailable):
        shared.result()  # at once: its deadline is over too
    assert work.runs == 1
    work.may_end.set()
    until(lambda: shared._attempt is None or shared._attempt.done.is_set(), seconds=20)
    assert shared.result() == 2


def test_work_behind_a_call_keeps_nobody(work: Work) -> None:
    shared: SharedWork[int] = SharedWork("test", work, seconds=60.0)
    shared.begin()
    assert work.began.wait(20)
    shared.begin()
    work.may_end.set()
    assert shared.result() in (1, 2)
    assert work.threads[0] == "test"


def test_where_no_thread_can_be_had_the_caller_does_it(
    work: Work, no_threads: Callable[[], AbstractContextManager[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    shared: SharedWork[int] = SharedWork("test", work, seconds=60.0, in_background=True)
    work.may_end.set()
    with no_threads():
        shared.begin()
        assert work.runs == 0
        with pytest.raises(DatabaseUnavailable):
            shared.result()
        monkeypatch.setattr(shared_work, "FAILURE_SECONDS", 0.0)
        assert shared.result() == 1
    assert work.threads == [threading.current_thread().name]
