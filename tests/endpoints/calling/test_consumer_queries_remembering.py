"""Results that are made once."""

from __future__ import annotations

import pytest

from endpoints.calling.consumer_queries import Remembered


def test_a_result_is_made_once() -> None:
    made: list[str] = []
    remembered: Remembered[str, str] = Remembered(capacity=10, max_bytes=1000)

    def make() -> str:
        made.append("made")
        return "value"

    assert [remembered.get("key", make, size=1) for _ in range(3)] == ["value"] * 3
    assert made == ["made"]


def test_keys_are_told_apart_and_none_is_a_value() -> None:
    remembered: Remembered[object, object] = Remembered(capacity=10, max_bytes=1000)
    assert remembered.get(1, lambda: None, size=1) is None
    assert remembered.get(1, lambda: "again", size=1) is None
    assert remembered.get("1", lambda: "other", size=1) == "other"


def test_no_error_is_remembered() -> None:
    remembered: Remembered[str, int] = Remembered(capacity=10, max_bytes=1000)
    with pytest.raises(ZeroDivisionError):
        remembered.get("key", lambda: 1 // 0, size=1)
    assert remembered.get("key", lambda: 1, size=1) == 1


def test_the_number_of_results_is_bounded() -> None:
    remembered: Remembered[int, int] = Remembered(capacity=3, max_bytes=1000)
    for number in range(100):
        remembered.get(number, lambda number=number: number, size=1)  # type: ignore[misc]
        assert len(remembered._values) <= 3


def test_their_bytes_are_bounded() -> None:
    remembered: Remembered[int, int] = Remembered(capacity=1000, max_bytes=1000)
    for number in range(100):
        remembered.get(number, lambda number=number: number, size=60)  # type: ignore[misc]
        assert len(remembered._values) <= 1000 // 60
    assert remembered._values


def test_what_is_large_is_made_anew() -> None:
    remembered: Remembered[str, str] = Remembered(capacity=10, max_bytes=1000)
    remembered.get("small", lambda: "kept", size=62)
    assert remembered.get("large", lambda: "first", size=63) == "first"
    assert remembered.get("large", lambda: "second", size=63) == "second"
    assert remembered.get("small", lambda: "another", size=62) == "kept"
