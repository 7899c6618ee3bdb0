"""Pages of a tail: every row once, whatever order rows are stored in, as far as the limits promise."""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endpoints.cache import QueryRequest
from endpoints.calling import tail_places, tails
from endpoints.calling.tail_places import SEEN_ROWS, Place, hash_row, read_page_token, write_page_token
from endpoints.calling.tails import Tail
from endpoints.definition import Version
from endpoints.errors import InvalidPageToken
from endpoints.results.outcomes import ResultFormat, Rows

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LATE = timedelta(seconds=60)
REQUEST = QueryRequest({}, "lql", "s:event_message", redact=False, format=ResultFormat.JSON)
Row = tuple[str, datetime, str]


class Table:
    """A log table in memory, read as PostgreSQL reads the stretch of a tail."""

    def __init__(self, *, max_rows: int) -> None:
        self.rows: list[tuple[datetime, str]] = []
        self.tail = Tail(Version(pk=uuid.uuid4(), version=1, name="logs", max_rows=max_rows), REQUEST, None, b"")

    def store(self, *rows: tuple[datetime, str]) -> None:
        self.rows += rows

    def page(self, now: datetime) -> list[str]:
        """Return the ids of the next page, and go on from there."""
        place = self.tail.place
        behind = [row for row in self.rows if row[0] <= now + LATE and (place is None or row >= place.key)]
        limit = self.tail.page_rows + (0 if place is None else SEEN_ROWS)
        found = sorted(behind, reverse=place is None)
        values = [(name, moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), name) for moment, name in found]
        rows = Rows(("message", "place timestamp", "place id"), values[:limit], len(values) > limit, 0.0)
        new, following, self.truncated = tails._new_rows(self.tail, rows, earliest=now - LATE)
        assert len(following.seen) <= SEEN_ROWS + 1
        assert place is None or following.key >= place.key
        token = write_page_token(following, b"")
        assert read_page_token(token, b"") == following
        self.tail = replace(self.tail, place=following)
        return [row[0] for row in new]

    def rest(self, now: datetime) -> list[str]:
        found = self.page(now)
        while self.truncated:
            found += self.page(now)
        return found


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 59), st.integers(0, 3)), max_size=60), st.integers(1, 7), st.randoms())
def test_each_row_comes_once_if_it_is_not_stored_too_late(
    stored: Sequence[tuple[int, int]], max_rows: int, chance: random.Random
) -> None:
    table = Table(max_rows=max_rows)
    table.page(NOW)
    found: list[str] = []
    now, names = NOW, []
    for late, pause in stored:
        now += timedelta(seconds=pause * 10)
        names.append(f"{chance.randrange(10)} {len(names)}")
        table.store((now - timedelta(seconds=late), names[-1]))
        if chance.random() < 0.5:
            found += table.rest(now)
    found += table.rest(now)
    assert sorted(found) == sorted(names)


def test_more_rows_than_are_remembered_come_once_each() -> None:
    table = Table(max_rows=400)
    table.page(NOW)
    names = [f"{number:05}" for number in range(3 * SEEN_ROWS)]
    table.store(*((after(number / 1000), name) for number, name in enumerate(names)))
    assert sorted(table.rest(after(10))) == names
    table.store((after(9.999), "one more"))
    assert table.rest(after(11)) == ["one more"]


def test_many_rows_of_one_moment_come_once_each() -> None:
    table = Table(max_rows=300)
    table.page(NOW)
    names = [f"{number:05}" for number in range(2 * SEEN_ROWS + 50)]
    table.store(*((NOW, name) for name in names))
    assert sorted(table.rest(after(1))) == names
    assert table.rest(after(2)) == []


def test_a_late_burst_before_many_sent_rows_repeats_none_of_them() -> None:
    table = Table(max_rows=100)
    table.page(NOW)
    table.store(*((after(30 + number / 1000), f"sent {number:05}") for number in range(SEEN_ROWS - 200)))
    table.rest(after(40))
    late = [f"late {number:05}" for number in range(2 * SEEN_ROWS)]
    table.store(*((after(number / 1000), name) for number, name in enumerate(late)))
    found = table.rest(after(41))
    assert sorted(each for each in found if each.startswith("late")) == late
    # One row may come again where the place of the last one must be known and there is no room.
    assert len(found) - len(late) <= 1


def test_rows_ahead_of_the_clock_come_when_it_is_their_time() -> None:
    table = Table(max_rows=10)
    table.page(NOW)
    table.store((after(3600), "of the future"), (after(1), "of now"))
    assert table.rest(after(2)) == ["of now"]
    assert table.rest(after(3590)) == ["of the future"]


def test_a_first_page_that_was_cut_begins_with_its_oldest_row() -> None:
    table = Table(max_rows=2)
    table.store(*((after(number), f"{number}") for number in range(5)))
    assert table.page(after(5)) == ["4", "3"]
    table.store((after(3.5), "late"), (after(0.5), "before what was shown"))
    assert table.rest(after(6)) == ["late"]


# --- Page tokens ------------------------------------------------------------------------------------------------------
moments = st.integers(-(10**16), 10**17).map(lambda microseconds: NOW + timedelta(microseconds=microseconds))
hashes = st.frozensets(st.binary(min_size=tail_places.HASH_BYTES, max_size=tail_places.HASH_BYTES), max_size=20)


@settings(deadline=None)
@given(moments, st.text(max_size=50), hashes)
def test_a_token_is_read_back(moment: datetime, row_id: str, seen: frozenset[bytes]) -> None:
    place = Place(moment, row_id.encode(errors="ignore").decode(), seen)
    assert read_page_token(write_page_token(place, b"mine"), b"mine") == place
    with pytest.raises(InvalidPageToken):
        read_page_token(write_page_token(place, b"mine"), b"yours")


@settings(deadline=None)
@given(st.text(max_size=200))
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidPageToken):
        read_page_token(text, b"mine")


def test_a_long_id_is_cut_between_characters() -> None:
    place = read_page_token(write_page_token(Place(NOW, "ä" * 2_000), b""), b"")
    assert place.id == "ä" * 512


def test_the_largest_token_fits_into_a_request_line() -> None:
    seen = frozenset(hash_row([number]) for number in range(SEEN_ROWS + 1))
    assert len(write_page_token(Place(NOW, "x" * 5_000, seen), b"")) < 16_384


def test_rows_with_different_values_have_different_hashes() -> None:
    rows: list[Sequence[Any]] = [("1",), (1,), (None,), ("None",), (b"1",), ("1", "2"), ("12",), ("1', '2",)]
    assert len({hash_row(row) for row in rows}) == len(rows)
