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


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Keep the collection of everything that the test run holds out of a measurement."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
