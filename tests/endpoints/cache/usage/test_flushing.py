"""What calls have noted is written behind them: by one thread, which no call waits for or fails with."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest
import structlog

from endpoints.cache.usage import flushing
from endpoints.cache.usage.flushing import Flusher
from tests.live.calls import until


class Writer:
    """Writes nothing, counts how often it was told to, and may be held up."""

    def __init__(self) -> None:
        self.times = 0
        self.fails = False
        self.may_end = threading.Event()
        self.may_end.set()

    def __call__(self) -> None:
        self.times += 1
        assert self.may_end.wait(20)
        if self.fails:
            raise ValueError("a bug")


@pytest.fixture
def writer() -> Iterator[Writer]:
    writer = Writer()
    yield writer
    writer.may_end.set()


def flusher_of(writer: Writer, *, seconds: float) -> Flusher:
    flusher = Flusher(seconds=seconds)
    flusher.writes(writer)
    return flusher


def test_notes_are_written_behind_the_calls_without_another_call(writer: Writer) -> None:
    flusher = flusher_of(writer, seconds=0.01)
    for times in (1, 2):
        flusher.note()
        until(lambda times=times: writer.times == times, seconds=20)


def test_many_notes_are_written_together(writer: Writer) -> None:
    flusher = flusher_of(writer, seconds=3600.0)
    threads = threading.active_count()
    for _ in range(10_000):
        flusher.note()
    assert threading.active_count() == threads + 1
    assert writer.times == 0
    flusher.settle(seconds=20)
    assert writer.times == 1


def test_who_notes_never_waits_for_the_writing(writer: Writer) -> None:
    flusher = flusher_of(writer, seconds=0.0)
    writer.may_end.clear()
    flusher.note()
    until(lambda: writer.times == 1, seconds=20)
    flusher.note()
    flusher.settle(seconds=0.01)
    assert writer.times == 1
    writer.may_end.set()
    until(lambda: writer.times == 2, seconds=20)


def test_nothing_fails_where_no_thread_is_to_be_had(
    writer: Writer, no_threads: Callable[[], AbstractContextManager[None]]
) -> None:
    flusher = flusher_of(writer, seconds=0.0)
    with structlog.testing.capture_logs() as lines, no_threads():
        for _ in range(100):
            flusher.note()
            flusher.settle()
    assert [line["event"] for line in lines] == ["usage_not_written"]
    assert writer.times == 0


def test_a_thread_is_tried_again_later(
    writer: Writer, no_threads: Callable[[], AbstractContextManager[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(flushing, "monotonic", lambda: now)
    flusher = flusher_of(writer, seconds=0.0)
    with no_threads():
        flusher.note()
    flusher.note()
    assert flusher._thread is None
    now += 1.0
    flusher.note()
    until(lambda: writer.times == 1, seconds=20)


def test_a_writer_that_fails_is_logged_once_and_does_not_end_the_thread(writer: Writer) -> None:
    flusher = flusher_of(writer, seconds=3600.0)
    writer.fails = True
    with structlog.testing.capture_logs() as lines:
        for _ in range(3):
            flusher.settle(seconds=20)
    assert writer.times == 3
    assert [(line["event"], line["reason"]) for line in lines] == [("usage_not_written", "ValueError: a bug")]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_writes_its_own(writer: Writer) -> None:
    flusher = flusher_of(writer, seconds=0.0)
    flusher.settle(seconds=20)
    child = os.fork()
    if not child:
        flusher.forget_thread()
        flusher.settle(seconds=20)
        os._exit(0 if writer.times == 2 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
