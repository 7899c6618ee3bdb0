# ruff: noqa: DTZ001 - every datetime here is UTC without zone
"""Texts as values of the types that fields have."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints.lql.fields import FieldType, cast_value, plain_digits, read_number
from endpoints.lql.refusals import Fault


def cast(text: str, type_: FieldType) -> Any:
    return cast_value(text, type_, path="metadata.x", position=3)


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (FieldType.STRING, "7", "7"),
        (FieldType.STRING, "", ""),
        (FieldType.OTHER, "10.0.0.1", "10.0.0.1"),
        (FieldType.JSON, "true", "true"),
        (FieldType.INTEGER, "007", Decimal(7)),
        (FieldType.INTEGER, "-5", Decimal(-5)),
        (FieldType.INTEGER, "1.5", Decimal("1.5")),
        (FieldType.INTEGER, "9" * 30, Decimal("9" * 30)),
        (FieldType.FLOAT, "3.14159265359", Decimal("3.14159265359")),
        (FieldType.FLOAT, "+1e-3", Decimal("0.001")),
        (FieldType.BOOLEAN, "true", True),
        (FieldType.BOOLEAN, "false", False),
        (FieldType.DATETIME, "2024-02-29", date(2024, 2, 29)),
        (FieldType.DATETIME, "2024-02-29T10:00:00", datetime(2024, 2, 29, 10)),
        (FieldType.DATETIME, "2024-02-29T10:00:00.5+02:00", datetime(2024, 2, 29, 8, 0, 0, 500_000)),
        (FieldType.DATETIME, "1710683222", datetime(2024, 3, 17, 13, 47, 2)),
        (FieldType.DATETIME, "1710683222001", datetime(2024, 3, 17, 13, 47, 2, 1_000)),
        (FieldType.DATETIME, "1710683222001999", datetime(2024, 3, 17, 13, 47, 2, 1_000)),
    ],
)
def test_reads_a_value_of_the_type(type_: FieldType, text: str, value: object) -> None:
    read = cast(text, type_)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("type_", "text", "word"),
    [
        (FieldType.INTEGER, "abc", "number"),
        (FieldType.INTEGER, "", "number"),
        (FieldType.FLOAT, "1.", "number"),
        (FieldType.FLOAT, ".5", "number"),
        (FieldType.FLOAT, "1e1000", "number"),
        (FieldType.FLOAT, "NaN", "number"),
        (FieldType.FLOAT, "Infinity", "number"),
        (FieldType.FLOAT, "1_000", "number"),
        (FieldType.FLOAT, "٣", "number"),
        (FieldType.FLOAT, " 1", "number"),
        (FieldType.FLOAT, "1\n", "number"),
        (FieldType.BOOLEAN, "True", "boolean"),
        (FieldType.BOOLEAN, "1", "boolean"),
        (FieldType.DATETIME, "2023-02-29", "datetime"),
        (FieldType.DATETIME, "2023-02-28T24:00:01", "datetime"),
        (FieldType.DATETIME, "17106832220000", "datetime"),
        (FieldType.DATETIME, "now", "datetime"),
        (FieldType.DATETIME, "today", "datetime"),
        (FieldType.DATETIME, "2023-01-01..2023-01-02", "datetime"),
        (FieldType.DATETIME, "2023-01-{01..02}", "datetime"),
    ],
)
def test_refuses_what_is_no_value_of_the_type(type_: FieldType, text: str, word: str) -> None:
    with pytest.raises(Fault) as fault:
        cast(text, type_)
    assert fault.value.reason == f"expected {word} for `metadata.x`, got '{text}'"
    assert fault.value.position == 3
    assert fault.value.expected


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**50), max_value=10**50))
def test_a_number_written_out_reads_as_itself(number: Decimal) -> None:
    digits = plain_digits(number)
    assert "E" not in digits.upper()
    assert read_number(digits) == number


def test_zero_has_no_sign() -> None:
    assert [plain_digits(Decimal(text)) for text in ("-0", "-0.00", "0", "-0.1")] == ["0", "0.00", "0", "-0.1"]
