"""How many threads wait for others' results: so many till the end, the others for a moment, then nobody more."""

from __future__ import annotations

from contextlib import ExitStack
from math import inf
from typing import Any

import pytest

from endpoints.cache.flights import CROWDED_SECONDS, GRACE_SECONDS, WaitingRoom
from tests.still_clock import StillClock


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def room(clock: StillClock, settings: Any) -> WaitingRoom:
    settings.ENDPOINTS_WAITING_CALLS = 8
    return WaitingRoom(clock=clock)


def leave_at(room: WaitingRoom, key: str, *, began_at: float = 1000.0) -> float:
    with room.enter(key, began_at=began_at) as moment:
        return moment


def fill(stack: ExitStack, room: WaitingRoom, *keys: str) -> list[bool]:
    """Let one caller of each key wait; tell which of them may stay."""
    return [stack.enter_context(room.enter(key, began_at=1000.0)) == inf for key in keys]


def test_one_result_never_takes_every_place(room: WaitingRoom) -> None:
    with ExitStack() as stack:
        assert fill(stack, room, *"aaaaaaa") == [True] * 7
        assert leave_at(room, "a") == 1000.0 + GRACE_SECONDS
        assert fill(stack, room, *"bc") == [True, False]


def test_who_leads_others_takes_a_place_and_none_of_theirs(room: WaitingRoom) -> None:
    with ExitStack() as stack:
        assert stack.enter_context(room.enter("a", began_at=1000.0, leads=True)) == inf
        assert fill(stack, room, *"aaaaaaa") == [True] * 7
        assert leave_at(room, "b") == 1000.0 + GRACE_SECONDS
    with room.enter("b", began_at=1000.0, leads=True) as moment:
        assert moment == inf


def test_a_place_is_given_back(room: WaitingRoom) -> None:
    with ExitStack() as stack:
        fill(stack, room, *"aaaaaaab")
        assert leave_at(room, "c") < inf
    assert leave_at(room, "a") == leave_at(room, "c") == inf


def test_who_has_no_place_waits_for_a_moment_since_the_work_began(room: WaitingRoom) -> None:
    with ExitStack() as stack:
        fill(stack, room, *"aaaaaaa")
        assert leave_at(room, "a", began_at=990.0) == 990.0 + GRACE_SECONDS


def test_nobody_more_waits_for_a_result_that_sent_callers_away(room: WaitingRoom, clock: StillClock) -> None:
    with ExitStack() as stack:
        fill(stack, room, *"aaaaaaab")
        refusal = room.turn_away("a")
        assert (refusal.status, refusal.code, refusal.headers) == (503, "overloaded", {"Retry-After": "2"})
        assert "being computed" in refusal.message
        assert leave_at(room, "a") == 1000.0
        assert leave_at(room, "c") == 1000.0 + GRACE_SECONDS, "others are no slower for it"
        clock.now += CROWDED_SECONDS
        assert leave_at(room, "a", began_at=clock.now) == clock.now + GRACE_SECONDS
    room.turn_away("a")
    assert leave_at(room, "a") == inf, "a place is a place"


def test_a_process_of_one_place_still_lets_one_wait(room: WaitingRoom, settings: Any) -> None:
    settings.ENDPOINTS_WAITING_CALLS = 1
    with ExitStack() as stack:
        assert fill(stack, room, *"ab") == [True, False]


def test_what_is_remembered_is_bounded(room: WaitingRoom) -> None:
    for number in range(5000):
        room.turn_away(number)
    assert len(room._crowded_until) <= 1000
