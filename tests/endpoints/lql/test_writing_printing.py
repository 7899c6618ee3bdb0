"""Rules print as text that reads back as the same rules."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endpoints.lql import (
    Aggregate,
    ChartRule,
    FilterRule,
    FromRule,
    LevelRangeRule,
    Now,
    Operator,
    Period,
    RangeRule,
    Rules,
    SelectRule,
    Shorthand,
    ShorthandKind,
    TimeRangeRule,
    TimeRule,
    TimeShorthandRule,
    Unit,
    Value,
    parse_lql,
    print_lql,
)
from endpoints.lql.rules import LEVELS, ORDER_OPERATORS, path_of


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (" ", ""),
        ("x a:1 c:sum(m.a) s:b from:t", "f:t s:b x a:1 c:sum(m.a) c:group_by(t::minute)"),
        ("c:group_by(timestamp::d)", "c:count(*) c:group_by(t::day)"),
        ("chart:max(timestamp)", "c:max(*) c:group_by(t::minute)"),
        ("select:metadata.a@b s:timestamp s:*", "s:m.a@b s:t s:*"),
        ("metadata.a.b:>=NULLABLE -m:NULL metadata:x", "m.a.b:>=NULLABLE -m:NULL metadata:x"),
        ("a:(x y) a:~(b) a:~~\"c\" a:@>~d", 'a:"x y" a:~"b" a:~"c" a:@>~d'),
        ("event_message:~x event_message:y ~z", "~x event_message:y ~z"),
        (r'"a\b" "\"" a:"\\"', r'"a\\b" "\"" a:"\\"'),
        ("--x -~y", "--x -~y"),
        ("metadata.level:info..error m.level:1..2", "m.level:info..error m.level:1..2"),
        ("a:-1.50..+2e3", "a:-1.50..+2e3"),
        ("timestamp:>now t:last@d t:last@07weeks", "t:>now t:last@1day t:last@7week"),
        ("t:this@mm t:today", "t:this@month t:today"),
        ("t:2026-01-01..2026-01-01", "t:2026-01-01..2026-01-01"),
        ("t:2025-01-01..2026-01-01", "t:{2025..2026}-01-01"),
        ("t:0009-01-01..0010-01-01", "t:{0009..0010}-01-01"),
        ("t:2026-01-{01..01}", "t:2026-01-01"),
        ("t:1710683222000..1710683222500", "t:2024-03-17T13:47:02.{0..5}"),
        ("t:2026-01-01T00:00:00.000..2026-01-01T00:00:00", "t:2026-01-01T00:00:00..2026-01-01T00:00:00"),
        ("t:2026-01-01T00:00:00.5..2026-01-02T00:00:00.5", "t:2026-01-{01..02}T00:00:00.500000"),
        ("t:2026-01-01T00:00:00.10..2026-01-01T00:00:00.001", "t:2026-01-01T00:00:00.{100..001}"),
        ("t:<2026-01-01T00:00:00.000", "t:<2026-01-01T00:00:00"),
    ],
)  # fmt: skip
def test_prints_canonical_text(text: str, printed: str) -> None:
    rules = parse_lql(text)
    assert print_lql(rules) == printed
    assert parse_lql(printed) == rules


# ── Every rule the parser can make ──

KEYWORDS = {"f", "from", "c", "chart", "s", "select", "t", "timestamp"}
NAMES = st.from_regex("[A-Za-z0-9_]{1,6}", fullmatch=True)
KEYS = NAMES | st.text('a."\\ -:@()é', min_size=1, max_size=6)
DOTTED = st.builds(lambda first, keys: path_of([first, *keys]), NAMES, st.lists(KEYS, max_size=2)).filter(
    lambda path: not path.startswith("m.")
)
PATHS = st.one_of(DOTTED, DOTTED.map("metadata.{}".format), st.sampled_from(["event_message", "m", "metadata"]))
FIELDS = PATHS.filter(lambda path: path not in KEYWORDS)
COLUMNS = PATHS.filter(lambda path: path != "t") | st.just("timestamp")
DATES = st.dates()
# Fractions that share their last zeros with others, not only six random digits.
MOMENTS = st.builds(
    lambda moment, fraction: moment.replace(microsecond=fraction),
    st.datetimes(),
    st.one_of(st.just(0), st.integers(0, 9).map(lambda digit: digit * 100_000), st.integers(0, 999_999)),
)
ISO = st.one_of(
    DATES.map(lambda day: day.isoformat()),
    MOMENTS.map(lambda moment: moment.isoformat()),
    MOMENTS.map(lambda moment: moment.isoformat() + "Z"),
    st.datetimes().map(lambda moment: moment.replace(year=2020).isoformat() + "-03:30"),
)
NUMBERS = st.from_regex(r"[+-]?[0-9]{1,5}(\.[0-9]{1,5})?([eE][+-]?[0-9]{1,2})?", fullmatch=True)
BARE_NAMES = st.from_regex(r"[A-Za-z0-9_]([A-Za-z0-9_-]|\.(?!\.)){0,8}", fullmatch=True).filter(
    lambda text: text != "NULL" and not re.fullmatch(r"\d{4}-\d\d-\d\d", text)
)
SENDABLE = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=12)
QUOTED = st.builds(Value, SENDABLE | st.text('\\" ()x', max_size=8), st.just(True))
VALUES = QUOTED | st.builds(Value, BARE_NAMES | NUMBERS | ISO)
WORDS = st.from_regex(r'(\\"|[A-Za-z0-9._!%$^\\+\[\]?(){}#&*\-/<=>@;,|]){1,8}', fullmatch=True)
PATTERNS = QUOTED | st.builds(Value, WORDS.filter(lambda text: not text.startswith("(")) | st.just("(?i)x"))
NEGATED = st.booleans()
ORDERED = st.sampled_from(sorted({Operator.EQUAL, *ORDER_OPERATORS}))


def pairs_of(values: st.SearchStrategy) -> st.SearchStrategy:
    """Return pairs, often equal and often alike."""
    alike = values.flatmap(
        lambda one: st.tuples(st.just(one), st.sampled_from([one, one.replace(year=2020, day=1), one.replace(month=1)]))
    )
    return st.one_of(st.tuples(values, values), alike.filter(lambda pair: type(pair[0]) is type(pair[1])))


def time_ranges(values: st.SearchStrategy) -> st.SearchStrategy:
    return st.builds(lambda pair, negated: TimeRangeRule(*pair, negated), pairs_of(values), NEGATED)


def bare_words() -> st.SearchStrategy:
    """Words for message filters: one that begins with a dash is always behind another dash."""
    return st.builds(
        lambda value, negated: FilterRule(
            "event_message", Operator.STRING_CONTAINS, value, negated or value.text.startswith("-")
        ),
        QUOTED | st.builds(Value, WORDS),
        NEGATED,
    )


def ranges(ends: st.SearchStrategy[str]) -> st.SearchStrategy:
    return st.builds(RangeRule, FIELDS, st.builds(Value, ends), st.builds(Value, ends), NEGATED)


SHORTHANDS = st.one_of(
    st.sampled_from([Shorthand(ShorthandKind.TODAY), Shorthand(ShorthandKind.YESTERDAY)]),
    st.builds(Shorthand, st.just(ShorthandKind.THIS), st.sampled_from([unit for unit in Unit if unit != "second"])),
    st.builds(Shorthand, st.just(ShorthandKind.LAST), st.sampled_from(Unit), st.integers(1, 9999)),
)
REGEXPS = st.sampled_from([Operator.REGEXP, Operator.LIST_INCLUDES_REGEXP])
FILTERS = st.one_of(
    st.builds(FilterRule, FIELDS, st.just(Operator.EQUAL), st.none() | VALUES, NEGATED),
    st.builds(FilterRule, FIELDS, st.sampled_from(sorted(ORDER_OPERATORS | {Operator.LIST_INCLUDES})), VALUES, NEGATED),
    st.builds(FilterRule, FIELDS, REGEXPS, PATTERNS, NEGATED),
    st.builds(FilterRule, st.just("event_message"), st.just(Operator.REGEXP), st.builds(Value, WORDS), NEGATED),
    bare_words(),
    ranges(NUMBERS),
    ranges(DATES.map(lambda day: day.isoformat())),
    ranges(MOMENTS.map(lambda moment: moment.isoformat())),
    st.builds(LevelRangeRule, st.sampled_from(LEVELS), st.sampled_from(LEVELS), NEGATED),
    st.builds(TimeRule, ORDERED, DATES | MOMENTS | st.just(Now()), NEGATED),
    time_ranges(DATES),
    time_ranges(MOMENTS),
    st.builds(TimeShorthandRule, SHORTHANDS, NEGATED),
)
RULES = st.builds(
    Rules,
    st.none() | st.builds(FromRule, st.from_regex("[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)),
    st.none() | st.builds(ChartRule, st.sampled_from(Aggregate), COLUMNS, st.sampled_from(Period)),
    st.lists(st.builds(SelectRule, COLUMNS, st.none() | NAMES) | st.just(SelectRule("*")), max_size=4).map(tuple),
    st.lists(FILTERS, max_size=6).map(tuple),
)


@settings(max_examples=500, deadline=None)
@given(RULES)
def test_every_kind_of_rule_reads_back_as_it_was(rules: Rules) -> None:
    printed = print_lql(rules)
    assert parse_lql(printed) == rules
    assert print_lql(parse_lql(printed)) == printed


@settings(max_examples=300, deadline=None)
@given(time_ranges(DATES) | time_ranges(MOMENTS))
def test_every_time_range_reads_back_as_it_was(rule: TimeRangeRule) -> None:
    assert parse_lql(print_lql(Rules(filters=(rule,)))).filters == (rule,)


def test_a_difference_in_quotes_is_printed() -> None:
    assert print_lql(parse_lql('a:"1"')) != print_lql(parse_lql("a:1"))
