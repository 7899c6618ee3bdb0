"""Which server of the log database takes a call, and how far a standby is behind the primary."""

from __future__ import annotations

import pytest

from endpoints.log_database.servers import PrimaryPositions
from endpoints.results.positions import NO_POSITION


def positions(*looks: tuple[float, int], max_lag_seconds: float = 10) -> PrimaryPositions:
    noted = PrimaryPositions(max_lag_seconds)
    for at, position in looks:
        noted.note(at, position)
    return noted


LOOKS = ((100, 1000), (105, 1500), (111, 2000), (121, 3000))


@pytest.mark.parametrize(("replayed", "seconds"), [(3000, 0), (4000, 0), (2999, 0), (1999, 10), (1200, 16), (0, 21)])
def test_a_standby_is_as_far_behind_as_the_oldest_look_whose_position_it_has_not_replayed(
    replayed: int, seconds: float
) -> None:
    assert positions(*LOOKS).lag_seconds(replayed) == seconds


def test_without_a_look_at_the_primary_no_lag_is_known_and_any_position_will_do() -> None:
    assert positions().lag_seconds(0) is None
    assert positions().least_position == NO_POSITION


@pytest.mark.parametrize(("max_lag_seconds", "least"), [(0, 3000), (10, 2000), (15, 1500), (16, 1500), (21, 1000)])
def test_a_standby_must_have_replayed_what_was_written_before_the_allowed_lag(
    max_lag_seconds: float, least: int
) -> None:
    assert positions(*LOOKS, max_lag_seconds=max_lag_seconds).least_position == least


def test_as_long_as_nothing_older_is_known_it_must_have_replayed_the_first_look() -> None:
    assert positions((100, 1000)).least_position == 1000
    assert positions((100, 1000), (101, 1100)).least_position == 1000


def test_looks_at_a_former_primary_are_forgotten_since_rows_that_it_lost_had_higher_positions() -> None:
    noted = positions(*LOOKS)
    noted.forget()
    assert noted.lag_seconds(0) is None
    noted.note(122, 2500)
    assert (noted.least_position, noted.lag_seconds(2500)) == (2500, 0)
