"""How much work something is: in calls of functions where that tells all, else in seconds of the processor."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any


def work_of(act: Callable[[], object], *, refusals: tuple[type[Exception], ...] = ()) -> int:
    """Return how many functions `act` calls, those in C included; refusals of it are its end."""
    calls = 0

    def count(_frame: FrameType, _event: str, _argument: Any) -> None:
        nonlocal calls
        calls += 1

    before = sys.getprofile()
    with no_garbage_collection():
        sys.setprofile(count)
        try:
            with suppress(*refusals):
                act()
        finally:
            sys.setprofile(before)
    return calls


def takes_longer_than(seconds: float, act: Callable[[], object], *, refusals: tuple[type[Exception], ...] = ()) -> bool:
    """Return whether `act` takes more seconds of the processor, three times in a row: once is the machine's fault."""
    for _ in range(3):
        with no_garbage_collection(), suppress(*refusals):
            started = time.thread_time()
            try:
                act()
            finally:
                took = time.thread_time() - started
        if took <= seconds:
            return False
    return True


def outgrows_its_input(act: Callable[[int], object], *, size: int) -> bool:
    """Return whether `act` takes far more than ten times the processor's time for `10 * size` than for `size`.

    A regular expression is one call, however long it runs: `work_of` does not see that it is quadratic.
    """
    for _ in range(3):
        with no_garbage_collection():
            seconds = [_seconds_of(act, length) for length in (size, 10 * size)]
        if seconds[1] <= 30 * seconds[0]:
            return False
    return True


def _seconds_of(act: Callable[[int], object], length: int) -> float:
    started = time.thread_time()
    act(length)
    return time.thread_time() - started


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Keep the collection of everything that the test run holds out of a measurement."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
