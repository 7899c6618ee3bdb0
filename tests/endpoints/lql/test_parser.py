"""What parse_lql reads, and how it tells what it cannot read."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endpoints.errors import InvalidLQL
from endpoints.lql import (
    Aggregate,
    ChartRule,
    FilterRule,
    FromRule,
    LevelRangeRule,
    Operator,
    Period,
    RangeRule,
    SelectRule,
    Shorthand,
    ShorthandKind,
    TimeShorthandRule,
    Value,
    parse_lql,
)
from endpoints.lql.clauses import OPERATORS
from endpoints.lql.rules import keys_of, path_of


def equal(path: str, text: str, *, quoted: bool = False) -> FilterRule:
    return FilterRule(path, Operator.EQUAL, Value(text, quoted))


def contains(text: str, *, quoted: bool = False, negated: bool = False) -> FilterRule:
    return FilterRule("event_message", Operator.STRING_CONTAINS, Value(text, quoted), negated)


def matches(path: str, text: str, *, quoted: bool = False) -> FilterRule:
    return FilterRule(path, Operator.REGEXP, Value(text, quoted))


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        # values end at white space and keep their text
        ("a:123abc", equal("a", "123abc")),
        ("a:NULLABLE", equal("a", "NULLABLE")),
        ("c:d", equal("c", "d")),
        ("-chart:pie", FilterRule("chart", Operator.EQUAL, Value("pie"), negated=True)),
        ("a:5f0c1e1e-8b9a-4c53-9d7c-000000000000", equal("a", "5f0c1e1e-8b9a-4c53-9d7c-000000000000")),
        ("a:foo.bar-baz_1", equal("a", "foo.bar-baz_1")),
        ("a:1.5.2", equal("a", "1.5.2")),
        ("a:007", equal("a", "007")),
        ("a:-5", equal("a", "-5")),
        ("a:+1.5", equal("a", "+1.5")),
        ("a:-1.5e-3", equal("a", "-1.5e-3")),
        ("a:1E+05", equal("a", "1E+05")),
        ("a:2026-03-17", equal("a", "2026-03-17")),
        ("a:2026-03-17T10:00:00.5+02:00", equal("a", "2026-03-17T10:00:00.5+02:00")),
        ('a:"NULL"', equal("a", "NULL", quoted=True)),
        ('a:""', equal("a", "", quoted=True)),
        ('a:"two\twords\n"', equal("a", "two\twords\n", quoted=True)),
        (r'a:"\d \" \\ \\d"', equal("a", r"\d " + '" ' + "\\" + r" \d", quoted=True)),
        ("a:(two words)", equal("a", "two words", quoted=True)),
        (r"a:(say \"x\")", equal("a", 'say "x"', quoted=True)),
        ("a:NULL", FilterRule("a", Operator.EQUAL, None)),
        ("-a:NULL", FilterRule("a", Operator.EQUAL, None, negated=True)),
        # operators
        ("a:>=1", FilterRule("a", Operator.GREATER_OR_EQUAL, Value("1"))),
        ("a:<x", FilterRule("a", Operator.LESS, Value("x"))),
        ('a:@>"x y"', FilterRule("a", Operator.LIST_INCLUDES, Value("x y", quoted=True))),
        ("a:@>~^x|y$", FilterRule("a", Operator.LIST_INCLUDES_REGEXP, Value("^x|y$"))),
        ("a:~NULL", matches("a", "NULL")),
        ("a:~(?i)foo", matches("a", "(?i)foo")),
        ("a:~(foo bar)", matches("a", "foo bar", quoted=True)),
        ('a:~~"x"', matches("a", "x", quoted=True)),
        # words and phrases
        ("404", contains("404")),
        ("--foo", contains("-foo", negated=True)),
        ("-5", contains("5", negated=True)),
        ("--", contains("-", negated=True)),
        ("t", contains("t")),
        (r"a\"b", contains(r"a\"b")),
        ('-"a b"', contains("a b", quoted=True, negated=True)),
        ("~-x", matches("event_message", "-x")),
        ("~(a", matches("event_message", "(a")),
        ("event_message:~x", matches("event_message", "x")),
        # paths
        ("m.x:1", equal("metadata.x", "1")),
        ("metadata.x:1", equal("metadata.x", "1")),
        ("m.t:1", equal("metadata.t", "1")),
        ("m:1", equal("m", "1")),
        ("tt:1", equal("tt", "1")),
        ("t.x:1", equal("t.x", "1")),
        ("0a.b_c:1", equal("0a.b_c", "1")),
        # ranges
        ("a:1..10", RangeRule("a", Value("1"), Value("10"))),
        ("a:10..1", RangeRule("a", Value("10"), Value("1"))),
        ("a:-1.5..+2e3", RangeRule("a", Value("-1.5"), Value("+2e3"))),
        ("-a:2020-01-01..2020-02-01", RangeRule("a", Value("2020-01-01"), Value("2020-02-01"), negated=True)),
        (
            "a:2020-01-01T00:00:00.5Z..2020-01-01T00:00:00+01:00",
            RangeRule("a", Value("2020-01-01T00:00:00.5Z"), Value("2020-01-01T00:00:00+01:00")),
        ),
        ("m.level:debug..error", LevelRangeRule("debug", "error")),
        ("-metadata.level:alert..info", LevelRangeRule("alert", "info", negated=True)),
        ("m.level:10..50", RangeRule("metadata.level", Value("10"), Value("50"))),
        # the rest
        ("f:edge_logs", FromRule("edge_logs")),
        ("from:_" + "x" * 254, FromRule("_" + "x" * 254)),
        ("s:*", SelectRule("*")),
        ("select:m.a.b@c_1", SelectRule("metadata.a.b", "c_1")),
        ("s:t@" + "x" * 63, SelectRule("timestamp", "x" * 63)),
        ("s:timestamp", SelectRule("timestamp")),
        ("s:f", SelectRule("f")),
        ("c:count(*)", ChartRule()),
        ("c:p95(m.x)", ChartRule(Aggregate.P95, "metadata.x")),
        ("c:max(t)", ChartRule(Aggregate.MAXIMUM, "timestamp")),
        ("chart:group_by(timestamp::d)", ChartRule(period=Period.DAY)),
        ("-t:yesterday", TimeShorthandRule(Shorthand(ShorthandKind.YESTERDAY), negated=True)),
    ],
)
def test_reads_one_clause(text: str, rule: object) -> None:
    assert list(parse_lql(text)) == [rule]


@pytest.mark.parametrize("text", ["", " ", "\n\t \u3000\u00a0"])
def test_blank_text_says_nothing(text: str) -> None:
    assert list(parse_lql(text)) == []


@pytest.mark.parametrize("space", [" ", "\t", "\r\n", "\v", "\f", "\u00a0", "\u2028", "\u3000", "  \n "])
def test_any_white_space_separates_clauses(space: str) -> None:
    rules = parse_lql(f"{space}a:b{space}-c{space}")
    assert rules.filters == (equal("a", "b"), contains("c", negated=True))


def test_chart_clauses_make_one_chart() -> None:
    rules = parse_lql("c:group_by(t::h) x c:avg(m.a)")
    assert rules.chart == ChartRule(Aggregate.AVERAGE, "metadata.a", Period.HOUR)
    assert rules.chart.position == 0


def test_rules_keep_their_text_and_their_places() -> None:
    text = " s:a -b:1 f:t t:now\n-x c:count(*)"
    rules = parse_lql(text)
    assert rules.text == text
    assert {type(rule).__name__: text[rule.position :].split()[0] for rule in rules} == {
        "SelectRule": "s:a",
        "FilterRule": "x",
        "FromRule": "f:t",
        "TimeRule": "t:now",
        "ChartRule": "c:count(*)",
    }


def test_keeps_selections_and_filters_in_their_order_and_doubles() -> None:
    rules = parse_lql("s:b x s:a a:1 s:b x")
    assert [rule.path for rule in rules.selects] == ["b", "a", "b"]
    assert rules.filters == (contains("x"), equal("a", "1"), contains("x"))


# ── Refusals ──

VALUES = ["a word", "a number", "a date", "text in double quotes", "a range such as `1..10`", "`NULL`"]


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        (
            "m.path:/rest/v1",
            {
                "reason": "`/rest/v1` needs double quotes",
                "line": 1,
                "column": 8,
                "found": "/rest/v1",
                "expected": VALUES,
                "hint": 'Write m.path:"/rest/v1".',
            },
        ),
        (
            "ok\n  m.field:",
            {
                "reason": "there is nothing directly after `m.field:`",
                "line": 2,
                "column": 11,
                "found": "the end of the query",
                "expected": VALUES,
            },
        ),
        (
            "a:1 c:min(m.x)",
            {
                "reason": "`min` is not an aggregate",
                "line": 1,
                "column": 7,
                "found": "min",
                "expected": ["`count`", "`countd`", "`avg`", "`sum`", "`max`", "`p50`", "`p95`", "`p99`"],
            },
        ),
        (
            "c:group_by(t::week)",
            {
                "reason": "`week` is not a period of a chart",
                "line": 1,
                "column": 15,
                "found": "week",
                "expected": ["`second`", "`minute`", "`hour`", "`day`"],
            },
        ),
    ],
)
def test_tells_what_is_wrong(text: str, detail: dict[str, object]) -> None:
    with pytest.raises(InvalidLQL) as refused:
        parse_lql(text)
    assert refused.value.details == (detail,)
    assert refused.value.message.startswith(f"Line {detail['line']}, column {detail['column']}: {detail['reason']}. ")


@pytest.mark.parametrize(
    ("text", "column", "found", "told"),
    [
        # values
        ("m.host:foo:8080", 8, "foo:8080", 'Write m.host:"foo:8080".'),
        ("a:1b:2", 3, "1b:2", 'Write a:"1b:2".'),
        ("a:é", 3, "é", 'Write a:"é".'),
        ('a:x"y', 3, 'x"y', r'Write a:"x\"y".'),
        ("a:" + "/" * 70, 3, "/" * 60 + "…", "Put text with such characters in double quotes."),
        ("http://x.y", 6, "//x.y", 'Write "http://x.y".'),
        ("m.field:>>100", 10, ">100", "is used where a value should begin"),
        ("m.field:>=<100", 11, "<100", "is used where a value should begin"),
        ("m.field::value", 9, ":value", "is used where a value should begin"),
        ("m.field: x", 9, "white space", "there is nothing directly after `m.field:`"),
        ("a:> 1", 4, "white space", "there is nothing directly after `a:>`"),
        ("a:>NULL", 2, ":>", "`:>` cannot compare with NULL"),
        ("a:@>NULL", 2, ":@>", "cannot compare with NULL"),
        ("a:2020-02-31", 3, "2020-02-31", "In double quotes it is text."),
        ("a:>2020-01-01T25:00:00Z", 4, "2020-01-01T25:00:00Z", "not in the calendar"),
        ('a:"x"y', 3, '"x"y', "white space must follow the closing quote"),
        ("a:(x)y", 3, "(x)y", "white space must follow the closing parenthesis"),
        ("a:~(x y)z", 4, "(x", "white space must follow the closing parenthesis"),
        ('a:~~"x"y', 5, '"x"y', "white space must follow"),
        ("a:~~x", 4, "~x", "is used where a value should begin"),
        ('a:>~"x"', 4, '~"x"', "is used where a value should begin"),
        ('foo "bar baz', 5, '"bar baz', "the quote is never closed"),
        (r'a:"x\"', 3, r'"x\"', "the quote is never closed"),
        ('a:"x\\', 3, '"x\\', "the quote is never closed"),
        ("a:(x y", 3, "(x y", "the parenthesis is never closed"),
        # ranges
        ("a:1..x", 3, "1..x", "the ends of the range `1..x` are number and text"),
        ("a:1..2020-01-01", 3, "1..2020-01-01", "are number and date"),
        ("a:2020-01-01..2020-01-01T00:00:00", 3, "2020-01-01..2020-01-01T00:00:00", "date and time without zone"),
        ("a:1..2..3", 3, "1..2..3", "needs double quotes"),
        ("a:1...5", 3, "1...5", "needs double quotes"),
        ("a:1..", 3, "1..", "needs double quotes"),
        ("a:..5", 3, "..5", "needs double quotes"),
        ("a:>2020-01-01T25", 4, "2020-01-01T25", "is neither a day nor a moment. Expected a date such as"),
        ("a:2020-01-01T10-30", 3, "2020-01-01T10-30", "In double quotes it is text."),
        ("a:2020-01-01..2020-02-31", 15, "2020-02-31", "not in the calendar"),
        ("a:>1..2", 2, ":>", "cannot compare with the interval `1..2`"),
        ("m.level:>=info..error", 8, ":>=", "cannot compare with the interval"),
        ("m.level:debug..warn", 16, "warn", "Expected `debug`, `info`"),
        ("m.level:1..error", 9, "1", "`1` is not a level"),
        # words
        (
            "a:b user-agent:x",
            5,
            "user-agent:x",
            'Write m."user-agent":x for the field, or "user-agent:x" for the text.',
        ),
        ("naïve", 1, "naïve", 'Write "naïve".'),
        ("~naïve", 2, "naïve", 'Write ~"naïve".'),
        ("it's", 1, "it's", 'Write "it\'s".'),
        ('"a" b"', 5, 'b"', r'Write "b\"".'),
        ("x ~", 4, "the end of the query", "there is nothing directly after `~`"),
        ("~~x", 2, "~x", "is used where a value should begin"),
        (":x", 1, ":x", "needs double quotes"),
        ("\x01", 1, "\x01", "needs double quotes"),
        # dashes
        ("x - y", 3, "-", "nothing follows the dash"),
        ("x -", 3, "-", "nothing follows the dash"),
        ("-f:x", 1, "-", "a dash negates a filter"),
        ("x -s:a", 3, "-", "a dash negates a filter"),
        ("-c:count(*)", 1, "-", "a dash negates a filter"),
        # paths
        ("m..x:1", 2, "m..x", "a part of the field name `m..x` is empty"),
        (".x:1", 1, ".x", "is empty"),
        ("m.:1", 2, "m.", "is empty"),
        ("s:a..b", 4, "a..b", "is empty"),
        ("c:sum(m.)", 8, "m.", "is empty"),
        # parts of paths in quotes
        ("m.x-real-ip:1.2.3.4", 1, "m.x-real-ip:1.2.3.4", 'Write m."x-real-ip":1.2.3.4 for the field, or "m.x-real-ip'),
        ("-metadata.a.b-c:>=5", 2, "metadata.a.b-c:>=5", 'Write m.a."b-c":>=5 for the field'),
        ("m.x-y:/a", 1, "m.x-y:/a", 'Write m."x-y":"/a" for the field'),
        ("m.ö:~a|b", 1, "m.ö:~a|b", 'Write m."ö":~"a|b" for the field'),
        ('m.x-y:"a b"', 1, 'm.x-y:"a', 'The field is written m."x-y".'),
        ("s:m.x-y", 3, "m.x-y", 'such as m."x-real-ip"'),
        ("c:count(m.x-y)", 3, "count(m.x-y)", 'such as m."x-real-ip"'),
        ('m."x', 1, 'm."x', "must be closed"),
        ('m."x:1 y', 1, 'm."x:1', "must be closed"),
        ('m."x-y" :1', 1, 'm."x-y"', "is not a path with an operator behind it"),
        ('m."":1', 3, 'm.""', "is empty"),
        ('m."a"."":1', 7, 'm."a".""', "is empty"),
        ('m."a"..b:1', 6, 'm."a"..b', "is empty"),
        ('m."a".:1', 6, 'm."a".', "is empty"),
        ('m.x"y":1', 3, 'm.x"y"', "is only partly in double quotes"),
        ('m."x"y:1', 3, 'm."x"y', "is only partly in double quotes"),
        ('m."x""y":1', 3, 'm."x""y"', "is only partly in double quotes"),
        ('s:m."x"y', 5, 'm."x"y', "is only partly in double quotes"),
        ('"x-y":1', 1, '"x-y":1', 'A field in quotes has m. in front: m."x-real-ip":1.'),
        # tables, charts, selections
        ("f:edge-logs", 3, "edge-logs", "is not a table's name"),
        ("f:1x", 3, "1x", "is not a table's name"),
        ("f:" + "x" * 256, 3, "x" * 60 + "…", "is not a table's name"),
        ("f:", 3, "the end of the query", "there is nothing directly after `f:`"),
        ("c:count", 3, "count", "`count` is not a chart"),
        ("c:group_by", 3, "group_by", "`group_by` is not a chart"),
        ("c:d(", 3, "d(", "`d(` is not a chart"),
        ('c:"d"', 3, '"d"', "is not a chart"),
        ("c:count(*", 3, "count(*", "is not a chart"),
        ("c:COUNT(*)", 3, "COUNT", "is not an aggregate"),
        ("c:group_by(m.x::minute)", 3, "group_by(m.x::minute)", "is not a chart"),
        ("c:group_by(t::)", 15, None, "is not a period"),
        ("s:m.qty@", 9, None, "the alias after `@` is missing"),
        ("s:*@x", 4, "@x", "`*` is every column and takes no alias"),
        ("s:a@" + "x" * 64, 5, "x" * 60 + "…", "the alias has 64 characters"),
        ("s:m.tags@t:5", 3, "m.tags@t:5", "cannot be selected"),
        ("s:a@b-c", 3, "a@b-c", "cannot be selected"),
        # times
        ("t:>today", 2, ":>", "cannot compare with the interval `today`"),
        ("t:<=2020-01-01..2020-01-02", 2, ":<=", "cannot compare with the interval"),
        ("t:>2020-01-{01..02}", 2, ":>", "cannot compare with the interval"),
        ("t:~foo", 2, ":~", "`:~` does not compare times"),
        ("t:@>now", 2, ":@>", "does not compare times"),
        ("timestamp:>20", 12, "20", "Unix time has 10, 13 or 16 digits, not 2"),
        ("-t:last@30min", 11, "min", "`min` is not a unit of time"),
        ("t:", 3, "the end of the query", "Expected a date such as"),
        # text that no database takes
        ("a:b \x00", 5, None, "U+0000"),
        ('"\ud800"', 2, None, "U+D800"),
    ],
)
def test_refuses(text: str, column: int, found: str | None, told: str) -> None:
    with pytest.raises(InvalidLQL) as refused:
        parse_lql(text)
    (detail,) = refused.value.details
    assert (detail["line"], detail["column"], detail.get("found")) == (1, column, found)
    assert told in refused.value.message
    for terminal in ("INVALID", "BARE", "WORD", "_SPACE", "$END"):
        assert terminal not in refused.value.message


@pytest.mark.parametrize(
    ("text", "column", "told"),
    [
        ("f:a f:b", 5, "the second `f:`"),
        ("c:sum(a) c:sum(a)", 10, "its second aggregate"),
        ("c:group_by(t::s) c:sum(a) c:group_by(t::s)", 27, "its second `group_by`"),
        ("s:a " * 51, 201, "at most 50 columns"),
        ("a " * 101, 201, "at most 100 clauses"),
        ("s:a " * 102, 401, "at most 100 clauses"),
    ],
)
def test_refuses_too_many(text: str, column: int, told: str) -> None:
    with pytest.raises(InvalidLQL, match=told) as refused:
        parse_lql(text)
    assert refused.value.details[0]["column"] == column


def test_reads_as_many_as_are_allowed() -> None:
    rules = parse_lql("s:a " * 50 + "x " * 48 + "c:count(*) f:t")
    assert (len(rules.selects), len(rules.filters)) == (50, 48)


@pytest.mark.parametrize(
    "unit",
    [
        'a:"',
        'm."',
        'm."a" ',
        'm."a".',
        'm."\\"',
        's:m."',
        'c:sum(m."',
        "a:(x ",
        '"\\"',
        "a:~(x ",
        "a.",
        "1",
        "t:{",
        "x:1..",
        "- ",
        "a:b ",
        '\\"',
        "(",
        "\\",
        "é",
        "~",
        ":",
    ],
)
def test_long_text_is_read_in_linear_time(unit: str) -> None:
    text = unit * (200_000 // len(unit))
    started = time.process_time()
    with suppress(InvalidLQL):
        parse_lql(text)
    # Seconds; about 0.02 are needed, and quadratic time would be minutes.
    assert time.process_time() - started < 2


# --- Names in quotes --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "path", "keys"),
    [
        ('m."x-real-ip":1', 'metadata."x-real-ip"', ("metadata", "x-real-ip")),
        ('metadata."x-real-ip"."a b":1', 'metadata."x-real-ip"."a b"', ("metadata", "x-real-ip", "a b")),
        ('request."x-y".z:1', 'request."x-y".z', ("request", "x-y", "z")),
        ('m."a.b":1', 'metadata."a.b"', ("metadata", "a.b")),
        ('m."level":1', "metadata.level", ("metadata", "level")),
        ('m."level".a:1', "metadata.level.a", ("metadata", "level", "a")),
        (r'm."say \"a\" \\ \d":1', r'metadata."say \"a\" \\ \\d"', ("metadata", r'say "a" \ \d')),
        ('m."a:1 b:(x":1', 'metadata."a:1 b:(x"', ("metadata", "a:1 b:(x")),
        ('m."日本":1', 'metadata."日本"', ("metadata", "日本")),
        ('m."@timestamp":1', 'metadata."@timestamp"', ("metadata", "@timestamp")),
    ],
)
def test_a_part_of_a_path_may_be_in_quotes(text: str, path: str, keys: tuple[str, ...]) -> None:
    (rule,) = parse_lql(text).filters
    assert rule == FilterRule(path, Operator.EQUAL, Value("1"))
    assert keys_of(path) == keys
    written = text.removesuffix(":1")
    for sign, operator in OPERATORS.items():
        assert parse_lql(f"-{written}{sign}5").filters == (FilterRule(path, operator, Value("5"), negated=True),)
    assert parse_lql(f"s:{written} s:{written}@a").selects == (SelectRule(path), SelectRule(path, "a"))
    assert parse_lql(f"c:countd({written}) c:group_by(t::d)").chart == ChartRule(
        Aggregate.COUNT_DISTINCT, path, Period.DAY
    )


KEYS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=8)


@settings(deadline=None)
@given(keys=st.lists(KEYS | st.text('."\\ :()@a-', min_size=1, max_size=6), max_size=4))
def test_any_names_can_be_written(keys: list[str]) -> None:
    path = path_of(["metadata", *keys])
    assert keys_of(path) == ("metadata", *keys)
    assert parse_lql(f"{path}:1 s:{path}").selects == (SelectRule(path),)
    assert parse_lql(f"c:count({path})").chart == ChartRule(Aggregate.COUNT, path)


@settings(deadline=None)
@given(
    name=st.from_regex(r"[a-z@][a-z@-]{0,7}-[a-zä-]{1,8}", fullmatch=True),
    value=st.from_regex(r"[A-Za-z0-9/_.-][^\s\"\x00]{0,8}", fullmatch=True),
)
def test_the_advice_for_a_name_that_needs_quotes_is_right(name: str, value: str) -> None:
    with pytest.raises(InvalidLQL) as refused:
        parse_lql(f"m.{name}:{value}")
    hint = str(refused.value.details[0]["hint"])
    field, _, text = hint.removeprefix("Write ").removesuffix(" for the text.").partition(" for the field, or ")
    assert parse_lql(field).filters[0].path == path_of(["metadata", name])
    assert parse_lql(text).filters == (
        FilterRule("event_message", Operator.STRING_CONTAINS, Value(f"m.{name}:{value}", quoted=True)),
    )
