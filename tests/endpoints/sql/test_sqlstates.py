"""Every SQLSTATE is explained in words of our own; names come from the consumer's text alone."""

from __future__ import annotations

import re

import pytest

from endpoints.sql.sqlstates import _EXPLANATIONS as EXPLANATIONS
from endpoints.sql.sqlstates import explain, name_at

COLUMNS = ["timestamp", "id", "event_message", "metadata"]


def test_suggests_near_columns() -> None:
    explanation = explain("42703", name="e.event_mesage", known_names=COLUMNS)
    assert explanation is not None
    assert explanation.message == "There is no column `e.event_mesage` here."
    assert explanation.hint == "Did you mean `event_message`?"


def test_suggests_nothing_where_nothing_is_near() -> None:
    explanation = explain("42703", name="zzz", known_names=COLUMNS)
    assert explanation is not None
    assert explanation.hint == ""


def test_knows_every_json_error() -> None:
    assert explain("2203A") == explain("22037")


@pytest.mark.parametrize("sqlstate", ["", "XX000", "58030", "28000"])
def test_explains_nothing_it_does_not_know(sqlstate) -> None:
    assert explain(sqlstate) is None


@pytest.mark.parametrize("sqlstate", sorted(EXPLANATIONS))
def test_every_explanation_is_a_sentence(sqlstate) -> None:
    for name in ("", "thing"):
        explanation = explain(sqlstate, name=name)
        assert explanation is not None
        assert re.fullmatch(r"[A-Za-z][^{}]*\.", explanation.message)
        assert explanation.hint == "" or re.fullmatch(r"[A-Z].*\.", explanation.hint)


@pytest.mark.parametrize(
    ("sql", "offset", "name"),
    [
        ("select nothing from edge_logs", 7, "nothing"),
        ("select e . levl , 1", 7, "e.levl"),
        ('select "A b"."c" from x', 7, '"A b"."c"'),
        ("select e.* from e", 7, "e"),
        ("select 'secret' || 1", 7, ""),
        ("select 42", 7, ""),
        ("select 1 + 'a'", 9, "+"),
        ("select /* x */ nothing", 7, "nothing"),
        ("select @level", 7, "@level"),
        ("select x", 8, ""),
        ("select a b", 7, "a"),
        ("select f(x)", 7, "f"),
    ],
)
def test_names_what_stands_at_the_place(sql, offset, name) -> None:
    assert name_at(sql, offset) == name


def test_cuts_a_long_name() -> None:
    assert len(name_at("x" * 5000, 0)) == 127
