"""Who may read a body at the same time, and until when; the clock is the test's own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from endpoints.api.slow_bodies import (
    GRACE_SECONDS,
    SLOW_AFTER_SECONDS,
    STRANGER,
    WARY_SECONDS,
    BodyCutOff,
    ReadingPlaces,
)
from endpoints.errors import Overloaded, RequestTimeout
from tests.live.calls import until
from tests.still_clock import StillClock

THREADS = 16  # so 8 places: 2 for strangers, 6 for known callers, 3 of these for slow bodies of one


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def places(clock: StillClock) -> ReadingPlaces:
    return ReadingPlaces(threads=THREADS, body_seconds=60.0, bytes_per_second=4096, clock=clock)


def become_slow(clock: StillClock) -> None:
    clock.now += SLOW_AFTER_SECONDS * 1.01


def test_strangers_have_a_quarter_of_the_places(places: ReadingPlaces, clock: StillClock) -> None:
    for _ in range(2):
        places.enter(STRANGER)
    become_slow(clock)
    with pytest.raises(Overloaded) as refused:
        places.enter(STRANGER)
    assert refused.value.headers["Retry-After"] == "1"
    assert "body" in refused.value.message


def test_known_callers_read_whatever_strangers_do(places: ReadingPlaces, clock: StillClock) -> None:
    for _ in range(2):
        places.enter(STRANGER)
    become_slow(clock)
    for number in range(6):
        places.enter(f"caller {number}")


def test_at_most_half_of_the_threads_read(places: ReadingPlaces, clock: StillClock) -> None:
    for number in range(6):
        places.enter(f"caller {number}")
    become_slow(clock)
    with pytest.raises(Overloaded):
        places.enter("one more")


def test_slow_bodies_of_one_caller_leave_places_to_others(places: ReadingPlaces, clock: StillClock) -> None:
    for _ in range(3):
        places.enter("slow")
    become_slow(clock)
    with pytest.raises(Overloaded):
        places.enter("slow")
    places.enter("another")


def test_quick_bodies_of_one_caller_may_have_all_places_of_known_callers(places: ReadingPlaces) -> None:
    for _ in range(6):
        places.enter("quick")


def test_slow_bodies_that_came_at_once_are_cut_down_to_the_share(places: ReadingPlaces, clock: StillClock) -> None:
    readers = [places.enter("slow") for _ in range(6)]
    for reader in readers:
        places.wait_for_piece(reader, 1000)
    assert places.take_late() == []
    become_slow(clock)
    assert places.take_late() == readers[3:]
    assert all(isinstance(reader.failure, Overloaded) for reader in readers[3:])
    assert places.take_late() == []


def test_who_was_cut_off_has_its_share_also_for_bodies_that_may_be_quick(
    places: ReadingPlaces, clock: StillClock
) -> None:
    late = places.enter("slow")
    places.wait_for_piece(late, 1000)
    clock.now += 10
    assert places.take_late() == [late]
    places.leave(late)
    for _ in range(3):
        places.enter("slow")
    with pytest.raises(Overloaded):
        places.enter("slow")
    places.enter("another")


def test_who_was_cut_off_is_believed_again_after_a_while(places: ReadingPlaces, clock: StillClock) -> None:
    late = places.enter("slow")
    places.wait_for_piece(late, 1000)
    clock.now += 10
    places.take_late()
    places.leave(late)
    clock.now += WARY_SECONDS + 1
    for _ in range(6):
        places.enter("slow")


def test_who_leaves_makes_room(places: ReadingPlaces, clock: StillClock) -> None:
    readers = [places.enter(STRANGER) for _ in range(2)]
    become_slow(clock)
    places.leave(readers[0])
    places.enter(STRANGER)


def test_a_piece_has_the_time_of_the_lowest_rate(places: ReadingPlaces, clock: StillClock) -> None:
    reader = places.enter("caller")
    places.wait_for_piece(reader, 4096)
    clock.now += GRACE_SECONDS + 0.9
    assert places.take_late() == []
    clock.now += 0.2
    assert places.take_late() == [reader]
    assert isinstance(reader.failure, RequestTimeout)
    assert places.take_late() == []
    with pytest.raises(BodyCutOff):
        places.note_piece(reader)


def test_a_piece_that_came_starts_the_time_again(places: ReadingPlaces, clock: StillClock) -> None:
    reader = places.enter("caller")
    for _ in range(5):
        places.wait_for_piece(reader, 4096)
        clock.now += 2.9
        places.note_piece(reader)
    assert places.take_late() == []


def test_a_body_that_keeps_the_rate_still_has_an_end(places: ReadingPlaces, clock: StillClock) -> None:
    reader = places.enter("caller")
    for _ in range(30):
        places.wait_for_piece(reader, 4096)
        clock.now += 2.0
        places.note_piece(reader)
    with pytest.raises(BodyCutOff):
        places.wait_for_piece(reader, 4096)
    assert isinstance(reader.failure, RequestTimeout)
    assert reader.failure.status == 408


def test_two_threads_still_give_a_place_to_each_kind(clock: StillClock) -> None:
    places = ReadingPlaces(threads=2, body_seconds=60.0, bytes_per_second=4096, clock=clock)
    places.enter(STRANGER)
    places.enter("caller")


def test_a_late_reader_is_hung_up_on_by_the_watch() -> None:
    ended: list[object] = []
    places = ReadingPlaces(threads=THREADS, body_seconds=0.01, bytes_per_second=4096)
    reader = places.enter("caller", ended.append)
    places.wait_for_piece(reader, 1)
    watch = places._watch
    assert watch is not None
    until(lambda: bool(ended), seconds=60, pause=0.01)
    places.leave(reader)
    watch.join()
    assert ended == [reader.failure]
    assert isinstance(reader.failure, RequestTimeout)


def test_a_body_is_read_where_no_thread_can_watch_it_and_the_next_piece_tries_again(
    places: ReadingPlaces, no_threads: Callable[[], AbstractContextManager[None]]
) -> None:
    reader = places.enter("known")
    with no_threads():
        places.wait_for_piece(reader, 1000)
    assert places._watch is None
    places.wait_for_piece(reader, 1000)
    watch = places._watch
    assert watch is not None
    places.leave(reader)
    watch.join(timeout=60)
    assert places._watch is None
