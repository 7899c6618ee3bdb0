"""How much work something is: counted in calls of functions, not in seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any


def work_of(act: Callable[[], object], *, refusals: tuple[type[Exception], ...] = ()) -> int:
    """Return how many functions `act` calls, those in C included; refusals of it are its end."""
    calls = 0

    def count(_frame: FrameType, _event: str, _argument: Any) -> None:
        nonlocal calls
        calls += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        with suppress(*refusals):
            act()
    finally:
        sys.setprofile(before)
    return calls
