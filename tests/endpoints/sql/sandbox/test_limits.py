"""Bounds on what is checked at all: length, words, depth, FROM items, names."""

from __future__ import annotations

import sys

import pytest

from endpoints.errors import RequestTooLarge, SandboxViolation
from endpoints.sql.sandbox import SandboxLimits, SandboxTable, check_sandbox_query

TABLES = (SandboxTable("edge_logs", ("id", "timestamp", "event_message", "metadata")),)


def check(sql, **limits):
    return check_sandbox_query(sql, tables=TABLES, limits=SandboxLimits(**limits))


@pytest.mark.parametrize(
    ("limits", "within", "beyond"),
    [
        ({"tokens": 4}, "select 1 , 2", "select 1 , 2 , 3"),
        ({"depth": 3}, "select (((1)))", "select ((((1))))"),
        ({"depth": 2}, "select array[[1]]", "select array[[[1]]]"),
        ({"depth": 1}, "select case when true then 1 end", "select case when case when true then true end then 1 end"),
        ({"from_items": 2}, "select (select 1 from edge_logs) from edge_logs",
         "select (select 1 from edge_logs), (select 1 from edge_logs) from edge_logs"),
        ({"from_items_per_select": 2}, "select (select 1 from edge_logs a, edge_logs b) from edge_logs",
         "select 1 from edge_logs a, edge_logs b, edge_logs c"),
        ({"identifier_bytes": 9}, "select \"a b c d e\" from edge_logs", "select \"a b c d e \" from edge_logs"),
        ({"identifier_bytes": 9}, "select id as a2345678 from edge_logs",
         "select id as a234567890 from edge_logs"),
        ({"prefix_operators": 2}, "select - - 1", "select - - - 1"),
        ({"nested_operators": 2}, "select 1 * 2 / 3 + 4", "select 1 * 2 / 3 % 4"),
        ({"nested_operators": 1}, "select id || id || 'a' from edge_logs", "select id || id || id from edge_logs"),
    ],
)  # fmt: skip
def test_holds_the_limit(limits, within, beyond):
    check(within, **limits)
    with pytest.raises(SandboxViolation):
        check(beyond, **limits)


def test_counts_the_length_in_bytes():
    check("select 'äää'", bytes=15)
    with pytest.raises(RequestTooLarge):
        check("select 'ääää'", bytes=15)


def test_refuses_a_surrogate_with_its_place():
    with pytest.raises(SandboxViolation) as refusal:
        check("select '\ud800'")
    assert refusal.value.details[0]["column"] == 9


DEEP = {
    "brackets": "select " + "(" * 32 + "1" + ")" * 32,
    "subqueries": "select 1 where " + "exists (select 1 where " * 32 + "true" + ")" * 32,
    "from items": "select * from " + "(select * from " * 31 + "edge_logs" + ") q" * 31,
    "calls": "select " + "abs(" * 32 + "1" + ")" * 32,
    "cases": "select " + "case when " * 32 + "true" + " then true end" * 32,
    "cases in brackets": "select " + "case when (" * 32 + "true" + ") then true end" * 32,
    "common tables": "with a as (" * 31 + "select 1" + ") select 1" * 31,
    "arrays": "select array" + "[" * 32 + "1" + "]" * 32,
    "subqueries in cases": "select " + "case when true and exists (select true and " * 32 + "1" + ") then 1 end" * 32,
    "windows in cases": "select " + "case when count(1) over (order by " * 32 + "1" + ") then 1 end" * 32,
    "windows": "select " + "count(1) over (order by " * 32 + "1" + ")" * 32,
}


@pytest.mark.parametrize("sql", DEEP.values(), ids=DEEP.keys())
def test_reads_the_deepest_allowed_query_far_from_the_recursion_limit(sql):
    frame, used = sys._getframe(), 0
    while frame is not None:
        frame, used = frame.f_back, used + 1
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(used + 600)
    try:
        check(sql, from_items=64)
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize(
    "unit", ["(", "[", "case when ", "select (", "not ", "- ", "abs(", "exists (select ", "array["]
)
def test_refuses_endless_nesting(unit):
    with pytest.raises(SandboxViolation):
        check(f"select {unit * 5000}"[: 16 * 1024])


@pytest.mark.parametrize(
    "unit", ["1,", "a.", "1+", "'a',", "()", "$$x$$ ", "/**/", "a=1 and ", "--\n", "::int", '"a".']
)
def test_answers_any_text_of_full_length(unit):
    with pytest.raises(SandboxViolation):
        check(f"select {unit * 16384}"[: 16 * 1024])
