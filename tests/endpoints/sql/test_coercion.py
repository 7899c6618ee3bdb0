from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endpoints.sql.coercion import ParameterType, RawValue, canonical_timestamp, canonical_value, is_absent, sort_key

T = ParameterType


@pytest.mark.parametrize(
    ("type_", "raw", "canonical"),
    [
        (T.TEXT, "abc", "abc"),
        (T.TEXT, "  ' OR 1=1 --\n", "  ' OR 1=1 --\n"),
        (T.TEXT, "日本 \U0001f600", "日本 \U0001f600"),
        (T.TEXT, 5, "5"),
        (T.TEXT, 1.5, "1.5"),
        (T.TEXT, Decimal("1.50"), "1.50"),
        (T.TEXT, True, "true"),
        (T.INTEGER, "0", "0"),
        (T.INTEGER, "-0", "0"),
        (T.INTEGER, "+5", "5"),
        (T.INTEGER, " 5 ", "5"),
        (T.INTEGER, "007", "7"),
        (T.INTEGER, 5, "5"),
        (T.INTEGER, 5.0, "5"),
        (T.INTEGER, Decimal("5.00"), "5"),
        (T.INTEGER, "9223372036854775807", "9223372036854775807"),
        (T.INTEGER, "-9223372036854775808", "-9223372036854775808"),
        (T.NUMBER, "1", "1"),
        (T.NUMBER, "1.0", "1"),
        (T.NUMBER, "1e0", "1"),
        (T.NUMBER, "100", "100"),
        (T.NUMBER, "1E3", "1000"),
        (T.NUMBER, "-1.50", "-1.5"),
        (T.NUMBER, ".5", "0.5"),
        (T.NUMBER, "5.", "5"),
        (T.NUMBER, "-0.00", "0"),
        (T.NUMBER, "0e9999", "0"),
        (T.NUMBER, "25e-4", "0.0025"),
        (T.NUMBER, 0.1, "0.1"),
        (T.NUMBER, 3, "3"),
        (T.NUMBER, Decimal("1e2"), "100"),
        (T.NUMBER, "123456789012345678901234567890.123456789", "123456789012345678901234567890.123456789"),
        (T.NUMBER, 5e-324, "0." + "0" * 323 + "5"),
        *((T.BOOLEAN, raw, "true") for raw in ("true", "TRUE", "t", "yes", "On", "1", 1, True, " true ")),
        *((T.BOOLEAN, raw, "false") for raw in ("false", "False", "F", "no", "OFF", "0", 0, False)),
        (T.DATE, "2025-06-02", "2025-06-02"),
        (T.DATE, " 2024-02-29 ", "2024-02-29"),
        (T.UUID, "123E4567-E89B-12D3-A456-426614174000", "123e4567-e89b-12d3-a456-426614174000"),
        (T.UUID, "123e4567e89b12d3a456426614174000", "123e4567-e89b-12d3-a456-426614174000"),
        (T.UUID, "{123e4567-e89b-12d3-a456-426614174000}", "123e4567-e89b-12d3-a456-426614174000"),
        (T.TEXT_LIST, "a", ["a"]),
        (T.TEXT_LIST, "a,b", ["a,b"]),
        (T.TEXT_LIST, ["a", 1, True, 1.5], ["a", "1", "true", "1.5"]),
        (T.TEXT_LIST, ("b", "", None, "a"), ["b", "a"]),
    ],
)
def test_gives_the_canonical_text(type_: ParameterType, raw: RawValue, canonical: str | list[str]) -> None:
    assert canonical_value(type_, raw) == canonical


@pytest.mark.parametrize(
    ("raw", "canonical"),
    [
        ("2025-06-02T08:15:02.120000Z", "2025-06-02T08:15:02.120000Z"),
        ("2025-06-02T08:15:02Z", "2025-06-02T08:15:02.000000Z"),
        ("2025-06-02t08:15:02z", "2025-06-02T08:15:02.000000Z"),
        ("2025-06-02 08:15:02 Z", "2025-06-02T08:15:02.000000Z"),
        ("2025-06-02T10:15:02+02:00", "2025-06-02T08:15:02.000000Z"),
        ("2025-06-02T10:15:02+0200", "2025-06-02T08:15:02.000000Z"),
        ("2025-06-02T10:15:02+02", "2025-06-02T08:15:02.000000Z"),
        ("2025-06-02 10:15:02 +0200", "2025-06-02T08:15:02.000000Z"),
        ("2025-06-02T10:15:02 02:00", "2025-06-02T08:15:02.000000Z"),
        ("2025-06-02T10:15:02.5 0200", "2025-06-02T08:15:02.500000Z"),
        ("2025-06-02T10:15 02", "2025-06-02T08:15:00.000000Z"),
        ("2025-06-02T04:45:02-03:30", "2025-06-02T08:15:02.000000Z"),
        ("2025-06-02T08:15:02-00:00", "2025-06-02T08:15:02.000000Z"),
        ("2025-06-02T00:15:00+02:00", "2025-06-01T22:15:00.000000Z"),
        ("2025-06-02", "2025-06-02T00:00:00.000000Z"),
        ("2025-06-02T08:15", "2025-06-02T08:15:00.000000Z"),
        ("2025-06-02T08:15:02", "2025-06-02T08:15:02.000000Z"),
        ("2025-06-02 08:15:02", "2025-06-02T08:15:02.000000Z"),
        (" 2025-06-02T08:15:02\n", "2025-06-02T08:15:02.000000Z"),
        ("2025-06-02T08:15:02.1", "2025-06-02T08:15:02.100000Z"),
        ("2025-06-02T08:15:02,123", "2025-06-02T08:15:02.123000Z"),
        ("2025-06-02T08:15:02.123456789Z", "2025-06-02T08:15:02.123456Z"),
        ("2025-06-02T23:59:59.9999999Z", "2025-06-02T23:59:59.999999Z"),
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00.000000Z"),
        ("2025-06-02T24:00:00Z", "2025-06-03T00:00:00.000000Z"),
        ("2025-06-02T24:00", "2025-06-03T00:00:00.000000Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"),
        ("9999-12-31T24:00:00+00:01", "9999-12-31T23:59:00.000000Z"),
        ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"),
        # Unix time: seconds, milliseconds, microseconds, nanoseconds.
        ("1748852102", "2025-06-02T08:15:02.000000Z"),
        (" 1748852102 ", "2025-06-02T08:15:02.000000Z"),
        ("1748852102123", "2025-06-02T08:15:02.123000Z"),
        ("1748852102123456", "2025-06-02T08:15:02.123456Z"),
        ("1748852102123456789", "2025-06-02T08:15:02.123456Z"),
        ("1748852102999999999", "2025-06-02T08:15:02.999999Z"),
        ("1748852102.5", "2025-06-02T08:15:02.500000Z"),
        ("1748852102.9999999", "2025-06-02T08:15:02.999999Z"),
        ("1748852102123.25", "2025-06-02T08:15:02.123250Z"),
        ("1748852102123456.9", "2025-06-02T08:15:02.123456Z"),
        ("1748852102." + "9" * 50, "2025-06-02T08:15:02.999999Z"),
        ("1.748852102e9", "2025-06-02T08:15:02.000000Z"),
        ("001748852102", "2025-06-02T08:15:02.000000Z"),
        (1748852102, "2025-06-02T08:15:02.000000Z"),
        (1748852102123, "2025-06-02T08:15:02.123000Z"),
        (1748852102123456789, "2025-06-02T08:15:02.123456Z"),
        (1748852102.25, "2025-06-02T08:15:02.250000Z"),
        (Decimal("1748852102.123456"), "2025-06-02T08:15:02.123456Z"),
        (Decimal("1.7488521E+12"), "2025-06-02T08:15:00.000000Z"),
        ("1000000000", "2001-09-09T01:46:40.000000Z"),
        ("9999999999", "2286-11-20T17:46:39.000000Z"),
        ("9999999999999", "2286-11-20T17:46:39.999000Z"),
    ],
)
def test_reads_times_as_utc(raw: RawValue, canonical: str) -> None:
    assert canonical_value(T.TIMESTAMP, raw) == canonical


@pytest.mark.parametrize(
    ("type_", "raw", "reason"),
    [
        (T.TEXT, "a\x00b", "NUL"),
        (T.TEXT, "\ud800", "lone surrogate"),
        (T.TEXT, ["a"], "one value"),
        (T.TEXT, {"a": 1}, "plain values"),
        (T.TEXT, float("nan"), "finite"),
        (T.TEXT, Decimal("sNaN"), "finite"),
        (T.TEXT, 10**500, "too many digits"),
        *((T.INTEGER, raw, "not an integer") for raw in ("5.0", "1e3", "0x1F", "1_000", "5 5", "--5", "٥", " ", "a")),
        *((T.INTEGER, raw, "not an integer") for raw in (True, 5.5, 1e300, Decimal("0.1"), "9" * 41)),
        (T.INTEGER, "9223372036854775808", "out of range"),
        (T.INTEGER, -(2**63) - 1, "out of range"),
        (T.INTEGER, float("inf"), "finite"),
        (T.INTEGER, ["5"], "one value"),
        *(
            (T.NUMBER, raw, "not a number")
            for raw in ("NaN", "inf", "-Infinity", "1,5", "1e", ".", "0x1", "1_0", "٥", True)
        ),
        (T.NUMBER, float("-inf"), "finite"),
        (T.NUMBER, "1e401", "out of range"),
        (T.NUMBER, "1e-401", "out of range"),
        (T.NUMBER, "9" * 5_000, "out of range"),
        (T.NUMBER, "1." + "0" * 99 + "1", "significant digits"),
        *((T.BOOLEAN, raw, "not a boolean") for raw in ("2", "truth", "y", "null", 2, 1.0, "ﬁ")),
        *(
            (T.DATE, raw, "not a date")
            for raw in ("20250602", "2025-W23-1", "02.06.2025", "2025-06-02T00:00:00Z", 20250602)
        ),
        (T.DATE, "2025-02-29", "calendar"),
        (T.DATE, "0000-01-01", "calendar"),
        *(
            (T.UUID, raw, "not a UUID")
            for raw in ("abcdef12", "123e4567-e89b12d3a456426614174000", "{" + "0" * 32, "g" * 32)
        ),
        (T.UUID, "urn:uuid:123e4567-e89b-12d3-a456-426614174000", "not a UUID"),
        (T.TEXT_LIST, ["a\x00"], "NUL"),
        (T.TEXT_LIST, [["a"]], "plain values"),
        *((T.TIMESTAMP, raw, "no Unix time") for raw in ("174885210", "17488521020", "-1748852102", "0")),
        *((T.TIMESTAMP, raw, "no Unix time") for raw in ("1748852102e1", "1e-9999", "0." + "1" * 16, "1" * 5_000)),
        *((T.TIMESTAMP, raw, "no Unix time") for raw in (20250602, -1748852102, 1e300, 2**70, "1" * 20)),
        (T.TIMESTAMP, float("nan"), "finite"),
        *(
            (T.TIMESTAMP, raw, "not a time in ISO 8601")
            for raw in (
                "now",
                "yesterday",
                "2024-11",
                "2025-6-2",
                "2025-06-02Z",
                "2025-06-02T08:15:02+2:00",
                "2025-06-02T08:15:02  02:00",
                "2025-06-02T08:15:02Z+02:00",
                "2025-06-02T08:15:02Z; drop",
                "２025-06-02",
                True,
            )
        ),
        (T.TIMESTAMP, "2025-13-02T00:00:00Z", "calendar"),
        (T.TIMESTAMP, "2025-02-30", "calendar"),
        (T.TIMESTAMP, "2025-06-02T25:00:00Z", "hour"),
        (T.TIMESTAMP, "2025-06-02T24:00:01Z", "hour"),
        (T.TIMESTAMP, "2025-06-02T08:60:00Z", "minute"),
        (T.TIMESTAMP, "2025-06-02T08:15:61Z", "second"),
        (T.TIMESTAMP, "2025-06-02T08:15:02+24:00", "offset"),
        (T.TIMESTAMP, "2025-06-02T08:15:02+02:60", "offset"),
        (T.TIMESTAMP, "0001-01-01T00:00:00+00:01", "outside the years"),
        (T.TIMESTAMP, "9999-12-31T23:59:60Z", "outside the years"),
    ],
)
def test_refuses_other_values_without_repeating_them(type_: ParameterType, raw: RawValue, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as refusal:
        canonical_value(type_, raw)
    if isinstance(raw, str) and len(raw) > 6:
        assert raw.strip() not in str(refusal.value)


@pytest.mark.parametrize("raw", [None, "", [], [""], ["", None], ()])
def test_counts_nothing_as_absent(raw: RawValue) -> None:
    assert is_absent(raw)


@pytest.mark.parametrize("raw", [0, False, " ", "null", [0], ["", "a"], [[]]])
def test_counts_anything_else_as_sent(raw: RawValue) -> None:
    assert not is_absent(raw)


@pytest.mark.parametrize("type_", list(ParameterType))
def test_canonical_forms_stay_as_they_are(type_: ParameterType) -> None:
    samples: dict[ParameterType, RawValue] = {
        T.TEXT: " x ",
        T.INTEGER: "+07",
        T.NUMBER: "1.50e3",
        T.BOOLEAN: "Yes",
        T.TIMESTAMP: "2025-06-02T10:15:02,5 02:00",
        T.DATE: "2025-06-02",
        T.UUID: "{123E4567-E89B-12D3-A456-426614174000}",
        T.TEXT_LIST: ["a", "b"],
    }
    once = canonical_value(type_, samples[type_])
    assert canonical_value(type_, once) == once  # type: ignore[arg-type]
    assert type_.postgresql_type.replace("[]", "").isalpha()


ZONES = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
SAFE_TIMES = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=ZONES)  # noqa: DTZ001 - given zones


@settings(deadline=None, max_examples=200)
@given(SAFE_TIMES)
def test_times_with_offsets_round_trip(moment: datetime) -> None:
    canonical = canonical_timestamp(moment.isoformat())
    assert datetime.fromisoformat(canonical) == moment
    assert canonical == canonical_timestamp(moment.isoformat(" ").replace("+", " "))
    assert canonical == canonical_timestamp(moment.astimezone(UTC).isoformat())


@settings(deadline=None, max_examples=200)
@given(SAFE_TIMES, SAFE_TIMES)
def test_canonical_times_order_as_the_times_do(first: datetime, second: datetime) -> None:
    texts = [canonical_timestamp(moment.isoformat()) for moment in (first, second)]
    assert (texts[0] < texts[1]) == (first < second)


@settings(deadline=None, max_examples=200)
@given(st.floats(allow_nan=False, allow_infinity=False) | st.decimals(-(10**30), 10**30, places=8))
def test_numbers_keep_their_value_and_compare_by_text(number: float | Decimal) -> None:
    canonical = canonical_value(T.NUMBER, number)
    assert isinstance(canonical, str)
    assert Decimal(canonical) == Decimal(str(number))
    assert canonical == canonical_value(T.NUMBER, f"{Decimal(canonical):E}")
    assert sort_key(T.NUMBER, canonical) == Decimal(str(number))


@settings(deadline=None, max_examples=100)
@given(st.integers(-(2**63), 2**63 - 1), st.uuids())
def test_integers_and_uuids_round_trip(integer: int, uuid: UUID) -> None:
    assert canonical_value(T.INTEGER, str(integer)) == canonical_value(T.INTEGER, integer) == str(integer)
    assert canonical_value(T.UUID, uuid.hex.upper()) == str(uuid)


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(ParameterType), st.text() | st.integers() | st.floats() | st.booleans() | st.lists(st.text()))
def test_anything_is_coerced_or_refused(type_: ParameterType, raw: RawValue) -> None:
    try:
        value = canonical_value(type_, raw)
    except ValueError:
        return
    assert isinstance(value, list) == (type_ is T.TEXT_LIST)
