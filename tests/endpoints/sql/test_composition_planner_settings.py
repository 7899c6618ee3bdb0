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
    ("jit", "“jit” does not have the form name = value; separate settings with commas."),
    ("jit = off; role = postgres", "“jit = off; role = postgres” does not have the form name = value"),
    ("jit = off,", "“” does not have the form name = value"),
    ("jit = 'off'", "“jit = 'off'” does not have the form name = value"),
    ("role = postgres", "role is not a planner setting. The planner settings are enable_bitmapscan, "),
    ("statement_timeout = 0", "statement_timeout is not a planner setting"),
    ("work_mem = 1", "work_mem is not a planner setting"),
    ("search_path = public", "search_path is not a planner setting"),
    ("jit = maybe", "jit must be one of on, off; not maybe."),
    ("plan_cache_mode = generic", "plan_cache_mode must be one of auto, force_custom_plan, force_generic_plan; "),
    ("max_parallel_workers_per_gather = 9", "max_parallel_workers_per_gather must be one of 0, 1, 2, "),
    ("jit = on, JIT = off", "jit is set twice."),
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
