"""What was computed before, for who computes the same again: pure results only, a bounded number of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Remembered(Generic[Key, Value]):
    """Results by what they were made of, for all threads of a process; full, it forgets everything.

    Unlike functools.lru_cache it takes what need not be part of the key from `make`, and keeps no order: a hit is one
    look-up.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._values: dict[Key, Value] = {}

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """Return the value of this key, made where it is not known; errors of `make` are raised, not remembered."""
        try:
            return self._values[key]
        except KeyError:
            value = make()
        if len(self._values) >= self._capacity:
            self._values.clear()
        self._values[key] = value
        return value
