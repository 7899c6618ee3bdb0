"""Changed queries say what they said, and the change; places of what was written stay."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endpoints.errors import InvalidLQL
from endpoints.lql import (
    Aggregate,
    ChartRule,
    FilterRule,
    Operator,
    Period,
    SelectRule,
    Value,
    parse_lql,
)
from endpoints.lql.rules import path_of
from endpoints.lql.writing import NotFilterable, WrittenNumber, add_filter, chart_query, rows_query

NEEDED = ("timestamp", "id")


@pytest.mark.parametrize(
    ("lql", "changed"),
    [
        ("", " s:*"),
        ("m.level:error", "m.level:error s:*"),
        ("s:m.path@p", "s:m.path@p s:timestamp s:id"),
        ("c:count(*) c:group_by(t::day) m.level:error", "                              m.level:error s:*"),
        ('"c:count(*)" c:max(m.ms)', '"c:count(*)"             s:*'),
        ('m."c:count(*) x":1 c:max(m."m s")', 'm."c:count(*) x":1                s:*'),
        (r's:m."a b" c:sum(m."\" c:avg(x) ")', 's:m."a b"                         s:timestamp s:id'),
        ("m.a:(x c:count(*) c:avg(m.ms)", "m.a:(x c:count(*)             s:*"),
        ("c:word", "c:word s:*"),
    ],
)
def test_rows_are_asked_for_without_the_chart(lql: str, changed: str) -> None:
    assert rows_query(lql, needed=NEEDED) == changed


def test_a_chart_is_put_in_or_given_the_period() -> None:
    text, aggregate = chart_query("m.level:error", period=Period.HOUR)
    assert (text, aggregate) == ("m.level:error c:count(*) c:group_by(t::hour)", Aggregate.COUNT)
    text, aggregate = chart_query("c:avg(m.ms) m.level:error c:group_by(t::s)", period=Period.DAY)
    assert text.startswith("c:avg(m.ms) m.level:error ")  # where it was: a refusal of it tells that place
    assert aggregate is Aggregate.AVERAGE
    assert parse_lql(text) == parse_lql("m.level:error c:avg(m.ms) c:group_by(t::day)")


def test_a_chart_has_no_selections() -> None:
    text, _ = chart_query("s:m.ms s:id@a m.level:error", period=Period.DAY)
    assert parse_lql(text) == parse_lql("m.level:error c:count(*) c:group_by(t::day)")


@pytest.mark.parametrize(
    "change", [lambda lql: rows_query(lql, needed=NEEDED), lambda lql: chart_query(lql, period=Period.DAY)]
)
def test_a_query_that_cannot_be_read_is_told_with_its_place(change: Any) -> None:
    with pytest.raises(InvalidLQL) as refused:
        change("a:1 c:min(m.latency)")
    assert (refused.value.details[0]["line"], refused.value.details[0]["column"]) == (1, 7)


@pytest.mark.parametrize(
    ("keys", "value", "added"),
    [
        (["metadata", "level"], "error", "m.level:error"),
        (["metadata", "path"], "/rest/v1", 'm.path:"/rest/v1"'),
        (["metadata", "path"], 'a "b" \\', 'm.path:"a \\"b\\" \\\\"'),
        (["metadata", "flag"], "true", 'm.flag:"true"'),
        (["metadata", "flag"], "NULL", 'm.flag:"NULL"'),
        (["metadata", "version"], "12", 'm.version:"12"'),
        (["metadata", "flag"], True, "m.flag:true"),
        (["metadata", "plan"], None, "m.plan:NULL"),
        (["metadata", "a", "b"], WrittenNumber("-12.50"), "m.a.b:-12.50"),
        (["metadata", "a"], WrittenNumber("1e21"), "m.a:1e21"),
        (["metadata", "x-real-ip"], "1.2.3.4", 'm."x-real-ip":"1.2.3.4"'),
        (["metadata", "a.b", 'c "d" \\', "e"], "x", r'm."a.b"."c \"d\" \\".e:x'),
        (["id"], "a-1", "id:a-1"),
        (["event_message"], "GET 200", 'event_message:"GET 200"'),
    ],
)
def test_a_filter_is_added(keys: list[str], value: object, added: str) -> None:
    assert add_filter("", keys, value) == added
    assert add_filter(" x:1 ", keys, value, negated=True) == f"x:1 -{added}"


def test_a_filter_is_added_once_and_replaces_its_opposite() -> None:
    assert add_filter("a  m.level:error", ["metadata", "level"], "error") == "a  m.level:error"
    assert add_filter("a -m.level:error b", ["metadata", "level"], "error") == "a b m.level:error"


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (["metadata", ""], "x"),
        (["metadata", "a\0b"], "x"),
        (["metadata", "\ud800"], "x"),
        (["content-type"], "x"),
        (["a.b", "c"], "x"),
        ([""], "x"),
        (["metadata"], "x"),
        ([], "x"),
        (["a"] * 21, "x"),
        (["metadata", "a"], {"b": 1}),
        (["metadata", "a"], 1.5),
    ],
)
def test_refuses_what_no_filter_can_say(keys: list[str], value: object) -> None:
    with pytest.raises(NotFilterable):
        add_filter("", keys, value)


@pytest.mark.parametrize("text", ["", "1 2", "NaN", "1..2", "0x1", "1e9999"])
def test_refuses_what_is_no_number(text: str) -> None:
    with pytest.raises(NotFilterable):
        WrittenNumber(text)


KEYS = st.lists(
    st.from_regex(r"\A[A-Za-z0-9_]{1,12}\Z") | st.text('a."\\ -:@()é', min_size=1, max_size=6), min_size=1, max_size=4
)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=30)


@settings(deadline=None)
@given(keys=KEYS, value=TEXTS | st.booleans() | st.none() | NUMBERS, negated=st.booleans())
def test_what_is_added_reads_back_as_the_value_and_nothing_else(keys: list[str], value: Any, negated: bool) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    written = WrittenNumber(json.dumps(value)) if is_number else value
    rules = parse_lql(add_filter("m.kept:1", ["metadata", *keys], written, negated=negated))
    assert rules.filters[0] == FilterRule("metadata.kept", Operator.EQUAL, Value("1"))
    added = rules.filters[-1]
    assert isinstance(added, FilterRule)
    assert (added.path, added.operator, added.negated) == (path_of(["metadata", *keys]), Operator.EQUAL, negated)
    match value:
        case None:
            assert added.value is None
        case bool():
            assert added.value == Value(json.dumps(value))
        case str():
            assert added.value is not None
            assert added.value.text == value
        case _:
            assert added.value is not None
            assert json.loads(added.value.text) == value


@settings(deadline=None)
@given(text=TEXTS)
def test_no_phrase_is_taken_for_a_chart(text: str) -> None:
    phrase = add_filter("", ["event_message"], f" c:count(*) {text}")
    changed = parse_lql(rows_query(f"{phrase} c:count(*) s:id", needed=["timestamp"]))
    assert changed.chart is None
    charted = parse_lql(chart_query(f"{phrase} c:avg(m.ms) c:group_by(t::s)", period=Period.HOUR)[0])
    assert charted.chart == ChartRule(Aggregate.AVERAGE, "metadata.ms", Period.HOUR)
    assert changed.filters == charted.filters == parse_lql(phrase).filters
    assert changed.selects == (SelectRule("id"), SelectRule("timestamp"))
