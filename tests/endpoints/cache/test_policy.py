from __future__ import annotations

from dataclasses import replace

import pytest

from endpoints.cache import CachePolicy

POLICY = CachePolicy(fresh_seconds=100, stale_seconds=50, lease_seconds=10)


@pytest.mark.parametrize(
    ("age", "is_usable", "remaining"),
    [(0, True, 100), (60, True, 40), (100, True, 0), (149.9, True, 0), (150, False, 0), (-0.001, False, 100.001)],
)
def test_age_says_whether_a_result_is_fresh_stale_or_too_old(age: float, is_usable: bool, remaining: float) -> None:
    assert POLICY.is_usable(age) is is_usable
    assert POLICY.is_fresh(age) is (remaining > 0)
    assert POLICY.remaining(age) == pytest.approx(remaining)


@pytest.mark.parametrize(("age", "is_usable"), [(0, True), (99.9, True), (100, False), (-0.001, False)])
def test_who_takes_no_stale_result_gets_a_fresh_one_alone(age: float, is_usable: bool) -> None:
    policy = replace(POLICY, takes_stale=False)
    assert policy.is_usable(age) is is_usable
    assert policy.kept_seconds == POLICY.kept_seconds
