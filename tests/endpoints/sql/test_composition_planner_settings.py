"""Planner settings: what an operator may write, and what is said of anything else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints.sql.composition import PlannerSettingsError, parse_planner_settings

ACCEPTED = [
    ("", {}),
    ("  ", {}),
    ("jit = off", {"jit": "off"}),
    ("plan_cache_mode=force_generic_plan", {"plan_cache_mode": "force_generic_plan"}),
    (" Enable_Sort = OFF ,\n jit=on ", {"enable_sort": "off", "jit": "on"}),
    ("max_parallel_workers_per_gather = 0", {"max_parallel_workers_per_gather": "0"}),
]
REFUSED = [
    ("jit", "“jit” is not of the form name = value; commas stand between them."),
    ("jit = off; role = postgres", "“jit = off; role = postgres” is not of the form name = value"),
    ("jit = off,", "“” is not of the form name = value"),
    ("jit = 'off'", "“jit = 'off'” is not of the form name = value"),
    ("role = postgres", "role is none of the planner settings: enable_bitmapscan, "),
    ("statement_timeout = 0", "statement_timeout is none of the planner settings"),
    ("work_mem = 1", "work_mem is none of the planner settings"),
    ("search_path = public", "search_path is none of the planner settings"),
    ("jit = maybe", "jit is one of on, off, not maybe."),
    ("plan_cache_mode = generic", "plan_cache_mode is one of auto, force_custom_plan, force_generic_plan, "),
    ("max_parallel_workers_per_gather = 9", "max_parallel_workers_per_gather is one of 0, 1, 2, "),
    ("jit = on, JIT = off", "jit stands there twice."),
]


@pytest.mark.parametrize(("text", "expected"), ACCEPTED, ids=repr)
def test_settings_are_read_in_their_order(text: str, expected: dict[str, str]) -> None:
    assert list(parse_planner_settings(text).items()) == list(expected.items())


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=repr)
def test_anything_else_is_refused_with_what_would_be_right(text: str, message: str) -> None:
    with pytest.raises(PlannerSettingsError) as refused:
        parse_planner_settings(text)
    assert str(refused.value).startswith(message)


@given(st.text(alphabet="jit=onf,_ '\";\\$\n") | st.text())
def test_no_text_becomes_a_setting_of_another_kind(text: str) -> None:
    try:
        settings = parse_planner_settings(text)
    except PlannerSettingsError:
        return
    for name, value in settings.items():
        assert name in {"jit", "plan_cache_mode", "max_parallel_workers_per_gather"} or name.startswith("enable_")
        assert value.isascii()
        assert value.replace("_", "").isalnum()
