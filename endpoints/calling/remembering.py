"""What was computed before, for who computes the same again: pure results only, bounded in number and in bytes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

_LARGEST_PART: Final = 16  # one value takes at most this part of the room for all of them


class Remembered(Generic[Key, Value]):
    """Results by what they were made of, for all threads of a process; full, it forgets everything.

    Unlike functools.lru_cache it takes what need not be part of the key from `make`, counts bytes, and keeps no order:
    a hit is one look-up.
    """

    def __init__(self, capacity: int, *, max_bytes: int) -> None:
        self._capacity = capacity
        self._max_bytes = max_bytes
        self._bytes = 0
        self._values: dict[Key, Value] = {}
        self._lock = threading.Lock()

    def get(self, key: Key, make: Callable[[], Value], *, size: int) -> Value:
        """Return the value of this key, made where it is not known; errors of `make` are raised, not remembered.

        `size` is about how many bytes key and value take; what is large is made anew each time.
        """
        try:
            return self._values[key]
        except KeyError:
            value = make()
        if size > self._max_bytes // _LARGEST_PART:
            return value
        with self._lock:
            if len(self._values) >= self._capacity or self._bytes + size > self._max_bytes:
                self._values.clear()
                self._bytes = 0
            if key not in self._values:
                self._bytes += size
            self._values[key] = value
        return value
