"""The values of time filters."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endpoints.lql.refusals import Fault
from endpoints.lql.rules import Now, Origin, Shorthand, ShorthandKind, Unit
from endpoints.lql.times import UNIT_SPELLINGS, Instant, Interval, iso_kind, read_time


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("text", "expected", "origin"),
    [
        ("2026-03-17", date(2026, 3, 17), Origin.LOCAL),
        ("0001-01-01", date(1, 1, 1), Origin.LOCAL),
        ("2000-02-29", date(2000, 2, 29), Origin.LOCAL),
        ("2026-03-17T14:47:02", moment("2026-03-17T14:47:02"), Origin.LOCAL),
        ("2026-03-17T14:47:02.5", moment("2026-03-17T14:47:02.500000"), Origin.LOCAL),
        ("2026-03-17T14:47:02.000501", moment("2026-03-17T14:47:02.000501"), Origin.LOCAL),
        ("2026-03-17T14:47:02Z", moment("2026-03-17T14:47:02"), Origin.ABSOLUTE),
        ("2026-03-17T14:47:02+02:00", moment("2026-03-17T12:47:02"), Origin.ABSOLUTE),
        ("2026-01-01T00:00:00.1+00:30", moment("2025-12-31T23:30:00.100000"), Origin.ABSOLUTE),
        ("2026-12-31T14:00:00-23:59", moment("2027-01-01T13:59:00"), Origin.ABSOLUTE),
        ("1710683222", moment("2024-03-17T13:47:02"), Origin.ABSOLUTE),
        ("1710683222123", moment("2024-03-17T13:47:02.123"), Origin.ABSOLUTE),
        ("1710683222123999", moment("2024-03-17T13:47:02.123"), Origin.ABSOLUTE),
        ("9999999999", moment("2286-11-20T17:46:39"), Origin.ABSOLUTE),
        ("2026-{03..03}-17", date(2026, 3, 17), Origin.LOCAL),
        ("{2026..2026}-03-17T{14..14}:47:02.{5..50}Z", moment("2026-03-17T14:47:02.5"), Origin.ABSOLUTE),
        ("now", Now(), Origin.ABSOLUTE),
    ],
)
def test_reads_instants(text: str, expected: object, origin: Origin) -> None:
    assert read_time(text) == Instant(expected, origin)


@pytest.mark.parametrize(
    ("text", "lower", "upper", "origin"),
    [
        ("2026-01-01..2026-02-01", date(2026, 1, 1), date(2026, 2, 1), None),
        ("2026-02-01..2026-02-01", date(2026, 2, 1), date(2026, 2, 1), None),
        ("2026-{02..01}-01", date(2026, 2, 1), date(2026, 1, 1), Origin.LOCAL),
        ("{2025..2026}-{02..01}-{28..03}", date(2025, 2, 28), date(2026, 1, 3), Origin.LOCAL),
        (
            "2026-01-01T00:00:00..2026-01-01T00:00:00.5",
            moment("2026-01-01"),
            moment("2026-01-01T00:00:00.500000"),
            Origin.LOCAL,
        ),
        (
            "1710683222..2024-03-17T16:00:00+02:00",
            moment("2024-03-17T13:47:02"),
            moment("2024-03-17T14:00:00"),
            Origin.ABSOLUTE,
        ),
        (
            "2026-01-01T00:{00..30}:{10..05}.{001..5}+01:00",
            moment("2025-12-31T23:00:10.001"),
            moment("2025-12-31T23:30:05.5"),
            Origin.ABSOLUTE,
        ),
    ],
)
def test_reads_intervals(text: str, lower: object, upper: object, origin: Origin | None) -> None:
    assert read_time(text) == Interval(lower, upper, origin)


@pytest.mark.parametrize(("spelling", "unit"), UNIT_SPELLINGS.items())
def test_reads_every_unit(spelling: str, unit: Unit) -> None:
    assert read_time(f"last@{spelling}") == Shorthand(ShorthandKind.LAST, unit, 1)
    assert read_time(f"last@9999{spelling}") == Shorthand(ShorthandKind.LAST, unit, 9999)
    if unit is Unit.SECOND:
        with pytest.raises(Fault, match="not a unit of time"):
            read_time(f"this@{spelling}")
    else:
        assert read_time(f"this@{spelling}") == Shorthand(ShorthandKind.THIS, unit)


def test_spells_units_as_the_language_does() -> None:
    written = "weeks week months month days day years year hours hour minutes minute seconds second mm s m h d w y"
    assert " ".join(sorted(UNIT_SPELLINGS)) == " ".join(sorted(written.split()))
    assert (UNIT_SPELLINGS["m"], UNIT_SPELLINGS["mm"]) == (Unit.MINUTE, Unit.MONTH)


def test_reads_days_by_name() -> None:
    assert read_time("today") == Shorthand(ShorthandKind.TODAY)
    assert read_time("yesterday") == Shorthand(ShorthandKind.YESTERDAY)


@pytest.mark.parametrize(
    ("text", "offset", "reason"),
    [
        ("2026-02-31", 0, "`2026-02-31` is not in the calendar of the years 1 to 9999"),
        ("0000-01-01", 0, "not in the calendar"),
        ("2026-13-01", 0, "not in the calendar"),
        ("2026-01-01T25:00:00", 0, "not in the calendar"),
        ("2026-01-01T00:60:00", 0, "not in the calendar"),
        ("2026-01-01T00:00:00+24:00", 0, "not in the calendar"),
        ("2026-01-01T00:00:00+01:60", 0, "not in the calendar"),
        ("0001-01-01T00:00:00+01:00", 0, "not in the calendar"),
        ("9999-12-31T23:00:00-01:00", 0, "not in the calendar"),
        ("2026-{01..02}-31", 0, "`2026-02-31` is not in the calendar"),
        ("2026-01-01T00:00:{60..30}", 0, "not in the calendar"),
        ("2026-01-01..2026-02-31", 12, "not in the calendar"),
        ("2026-01-01..2026-01-01T00:00:00", 0, "a mixed range"),
        ("2026-01-01T00:00:00..2026-01-01T00:00:00Z", 0, "joins a time with zone and one without"),
        ("2026-01-01T00:00:00..1710683222", 0, "joins a time with zone and one without"),
        ("2026-01-01..1710683222", 0, "joins a day and a moment"),
        ("2026-01-01..now", 12, "`now` cannot be an end of a time range"),
        ("2026-01-01..", 12, "an end of the time range is missing"),
        ("..2026-01-01", 0, "an end of the time range is missing"),
        ("2026-01-01..2026-01-02..2026-01-03", 12, "cannot be an end"),
        ("2026-01-{01..02}..2026-02-01", 0, "is not a time"),
        ("2026-01-{1..2}", 0, "is not a time"),
        ("2026-01-{01..02..03}", 0, "is not a time"),
        ("2026-{01..02", 0, "is not a time"),
        ("20{25..26}-01-01", 0, "is not a time"),
        ("2026-01-01T00:00:00{Z..Z}", 0, "is not a time"),
        ("2026-01-01Z", 0, "is not a time"),
        ("２０２６-01-01", 0, "is not a time"),
        ("٠١٢٣٤٥٦٧٨٩", 0, "is not a time"),
        ("-1710683222", 0, "is not a time"),
        ("20022", 0, "Unix time has 10, 13 or 16 digits, not 5"),
        ("17106832220000", 0, "not 14"),
        ("9" * 5_000, 0, "not 5000"),
        ("Now", 0, "is not a time"),
        ("now@day", 0, "is not a time"),
        ('"2026-01-01"', 0, "is not a time"),
        ("this", 0, "is not a time"),
        ("this@", 5, "a unit of time is missing"),
        ("this@7d", 5, "`7d` is not a unit of time"),
        ("this@Week", 5, "`Week` is not a unit of time"),
        ("last@", 5, "a unit of time is missing"),
        ("last@7", 6, "a unit of time is missing"),
        ("last@30min", 7, "`min` is not a unit of time"),
        ("last@0d", 5, "`last@` cannot count `0` units"),
        ("last@10000d", 5, "cannot count `10000` units"),
        ("last@" + "9" * 5_000 + "d", 5, "cannot count"),
        ("last@-1d", 5, "`-1d` is not a unit of time"),
        ("last@1d2h", 6, "`d2h` is not a unit of time"),
    ],
)
def test_refuses(text: str, offset: int, reason: str) -> None:
    with pytest.raises(Fault) as refused:
        read_time(text, position=100)
    assert refused.value.position == 100 + offset
    assert reason in refused.value.reason
    assert refused.value.expected


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("2026-01-01", "date"),
        ("2026-01-01T00:00:00.5", "time without zone"),
        ("2026-01-01T00:00:00Z", "time with zone"),
        ("2026-01-{01..02}", None),
        ("1710683222", None),
        ("now", None),
        ("", None),
    ],
)
def test_names_the_kind_of_iso_text(text: str, kind: str | None) -> None:
    assert iso_kind(text) == kind


@settings(max_examples=200, deadline=None)
@given(
    st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 12, 31)),  # noqa: DTZ001 - UTC without zone
    st.integers(-23 * 60 - 59, 23 * 60 + 59),
)
def test_converts_any_offset_to_utc(local: datetime, minutes: int) -> None:
    sign, ahead = "-" if minutes < 0 else "+", abs(minutes)
    text = f"{local.isoformat(timespec='microseconds')}{sign}{ahead // 60:02}:{ahead % 60:02}"
    expected = datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None)
    assert read_time(text) == Instant(expected, Origin.ABSOLUTE)


@settings(max_examples=100, deadline=None)
@given(st.integers(10**12, 10**13 - 1))
def test_reads_milliseconds(milliseconds: int) -> None:
    expected = datetime(1970, 1, 1) + timedelta(milliseconds=milliseconds)  # noqa: DTZ001
    assert read_time(f"{milliseconds:013}") == Instant(expected, Origin.ABSOLUTE)
