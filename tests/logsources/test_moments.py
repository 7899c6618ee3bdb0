"""One table of the spellings of times, in docs/endpoints.md, and every reader of times reads all of it alike."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.core.management.base import CommandError
from hypothesis import example, given
from hypothesis import strategies as st

from endpoints.admin.draft_json import Malformed
from endpoints.admin.explorer import _time
from endpoints.errors import InvalidLQL
from endpoints.lql import TimeRule, parse_lql
from endpoints.lql.rules import Now, TimeRangeRule
from endpoints.sql.coercion import ParameterType, canonical_text
from logsources.management.commands.generate_logs import _read_until
from logsources.moments import _other_moment, read_moment, unix_moment
from logsources.rows import BadRow, read_row
from tests.files import PROJECT

NOW = datetime(2026, 11, 26, tzinfo=UTC)
PAGE = (PROJECT / "docs" / "endpoints.md").read_text(encoding="utf-8")
SPELLINGS = re.findall(r"^\| `([^`]+)` \| `([^`]+Z)` \|$", PAGE.partition("| spelling | moment |")[2], re.MULTILINE)
REFUSED = (
    "2026-W48-3",  # a week date
    "2026-W48-3T10:00:00Z",
    "2026-330",  # a day of the year
    "١٧٩٥٦٤٥٦٠٥",  # Arabic digits
    "٢٠٢٦-١١-٢٥",
    "2026-11-25T10:00:00+02:00:30",
    "2026-11-25T10:00:00+02:99",
    "2026-11-25T10:00:00+24:00",
    "2026-11-25T10:00:61Z",
    "2026-11-25T24:00:01Z",
    "2026-11-25T10:60:00Z",
    "2026-02-30",
    "2026-11-25Z",
    "2026-11-25x10:00:00",
    "2026-1-5",
    "20261325",
    "179564560",
    "17956456051",
    "-1795645605",
    "1795645605e1",
    "soon",
)


def of_load(text: str) -> datetime:
    return read_row({"event_message": "m", "project": "p", "timestamp": text}, project_path=None, now=NOW).timestamp


def of_parameter(text: str) -> datetime:
    return datetime.fromisoformat(canonical_text(ParameterType.TIMESTAMP, text))


def of_lql(text: str) -> datetime:
    (rule,) = parse_lql(f"t:>={text}").filters
    assert isinstance(rule, TimeRule)
    assert not isinstance(rule.moment, Now)
    return datetime(*rule.moment.timetuple()[:6], getattr(rule.moment, "microsecond", 0), tzinfo=UTC)


def of_end_of_range(text: str) -> datetime:
    (rule,) = parse_lql(f"t:{text}..{text}").filters
    assert isinstance(rule, TimeRangeRule)
    return datetime(*rule.upper.timetuple()[:6], getattr(rule.upper, "microsecond", 0), tzinfo=UTC)


def of_explorer(text: str) -> datetime:
    return _time({"start": text}, "start")


READERS: tuple[Callable[[str], datetime], ...] = (
    of_load,
    of_parameter,
    of_lql,
    of_end_of_range,
    of_explorer,
    _read_until,
)


def test_there_are_as_many_spellings_as_were_tried() -> None:
    assert len(SPELLINGS) >= 23


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
@pytest.mark.parametrize(("text", "moment"), SPELLINGS)
def test_every_reader_reads_every_spelling(text: str, moment: str, reader: Callable[[str], datetime]) -> None:
    expected = datetime.fromisoformat(moment)
    if reader in (of_lql, of_end_of_range):
        if " " in text or (reader is of_end_of_range and text.endswith("T10")):
            return  # a blank ends a clause
        if text.isdigit() and len(text) >= 16:
            expected = expected.replace(
                microsecond=expected.microsecond // 1000 * 1000
            )  # as in the language's reference
    assert reader(text) == expected


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
@pytest.mark.parametrize("text", REFUSED)
def test_every_reader_refuses_the_same(text: str, reader: Callable[[str], datetime]) -> None:
    with pytest.raises((ValueError, BadRow, InvalidLQL, Malformed, CommandError)):
        reader(text)


@pytest.mark.django_db(databases=["logs"])
@pytest.mark.parametrize("function", ["log_functions.try_timestamp", "logs_private.iso_timestamp"])
def test_functions_of_postgresql_read_a_spelling_as_this_moment_or_not_at_all(log_database: Any, function: str) -> None:
    for text, moment in SPELLINGS:
        ((read,),) = log_database.execute(f"SELECT {function}(%s)", [text]).fetchall()
        # iso_timestamp rounds what is finer than a microsecond
        assert read is None or abs(read - datetime.fromisoformat(moment)) <= timedelta(microseconds=1), text


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (1795645605, "2026-11-25T22:26:45Z"),
        (1795645605.123456, "2026-11-25T22:26:45.123456Z"),
        (1795645605123.25, "2026-11-25T22:26:45.12325Z"),
        (1795645605123456789, "2026-11-25T22:26:45.123456Z"),
        (Decimal("1795645605.1234569"), "2026-11-25T22:26:45.123456Z"),
    ],
)
def test_reads_numbers(number: float | Decimal, moment: str) -> None:
    assert unix_moment(number) == datetime.fromisoformat(moment)


@pytest.mark.parametrize(
    "number", [0, -1795645605, 20261125, 10**40, 0.5, 1e300, float("nan"), float("inf"), Decimal("1e-99")]
)
def test_refuses_numbers_that_are_no_unix_time(number: float | Decimal) -> None:
    with pytest.raises(ValueError, match="no Unix time"):
        unix_moment(number)


PIECES = [
    "2026",
    "-",
    "11",
    "25",
    "T",
    " ",
    "10",
    ":",
    "00",
    "60",
    "24",
    "99",
    ".",
    ",",
    "5",
    "Z",
    "z",
    "+",
    "02",
    "30",
    "W",
    "U",
    "٣",
]
USUAL = st.builds(
    lambda separator, clock, rest: f"2026-11-25{separator}{clock}{''.join(rest)}",
    st.sampled_from("T "),
    st.sampled_from(["10:00:00", "23:59:60", "24:00:00", "10:00"]),
    st.lists(st.sampled_from(PIECES), max_size=6),
)


@given(st.one_of(USUAL, st.lists(st.sampled_from(PIECES), max_size=12).map("".join)))
@example("2026-11-25T10:00:00:2026")  # this and the next ones are read by Python
@example("2026-11-25T10:00:Z")
@example("2026-11-25T10:00:00zZ")
@example("2026-11-25T10:00:00.123456zZ")
@example("2026-11-25T10:00:00.123456123456W+02:00")
@example("2026-11-25 10:00:00+02.20")
def test_the_fast_way_reads_what_the_slow_way_reads(text: str) -> None:
    assert outcome(read_moment, text) == outcome(lambda text: _other_moment(text.strip(" ")), text)


def outcome(reader: Callable[[str], datetime], text: str) -> datetime | str:
    try:
        moment = reader(text)
    except ValueError:
        return "refused"
    assert moment.utcoffset() == timedelta()
    return moment
