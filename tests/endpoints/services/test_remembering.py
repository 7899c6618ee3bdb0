"""Results that are made once."""

from __future__ import annotations

import pytest

from endpoints.services.remembering import Remembered


def test_a_result_is_made_once() -> None:
    made: list[str] = []
    remembered: Remembered[str, str] = Remembered(capacity=10)

    def make() -> str:
        made.append("made")
        return "value"

    assert [remembered.get("key", make) for _ in range(3)] == ["value"] * 3
    assert made == ["made"]


def test_keys_are_told_apart_and_none_is_a_value() -> None:
    remembered: Remembered[object, object] = Remembered(capacity=10)
    assert remembered.get(1, lambda: None) is None
    assert remembered.get(1, lambda: "again") is None
    assert remembered.get("1", lambda: "other") == "other"


def test_no_error_is_remembered() -> None:
    remembered: Remembered[str, int] = Remembered(capacity=10)
    with pytest.raises(ZeroDivisionError):
        remembered.get("key", lambda: 1 // 0)
    assert remembered.get("key", lambda: 1) == 1


def test_memory_is_bounded() -> None:
    remembered: Remembered[int, int] = Remembered(capacity=3)
    for number in range(100):
        remembered.get(number, lambda number=number: number)  # type: ignore[misc]
        assert len(remembered._values) <= 3
