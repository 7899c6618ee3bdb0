# ruff: noqa: DTZ001 - every datetime here is UTC without zone
"""What queries mean: PostgreSQL's rows against a plain evaluation in Python, for a table of queries and for any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from endpoints.lql.parser import parse_lql
from endpoints.lql.rules import (
    MESSAGE,
    ORDER_OPERATORS,
    Aggregate,
    ChartRule,
    FilterRule,
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
)
from tests.endpoints.lql.evaluation import MISSING, Row
from tests.endpoints.lql.live_table import NOW, TYPES, LiveTable, make_row, numbers

DAY = datetime(2024, 5, 14)
ALMOST = timedelta(days=1) - timedelta(microseconds=1)
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
DOCUMENTS: tuple[Any, ...] = (
    MISSING,
    None,
    {},
    [],
    [{}],
    [{"status": 200, "level": "error", "tags": ["a", "b"], "user": {"id": 7, "name": "Ann"}}],
    {"status": "200", "level": "warning", "tags": "a", "user": [{"id": "7", "name": "Bob"}]},
    [{"status": 200.0, "level": "info", "tags": [], "user": [{"id": 8}, {"id": "9", "name": None}]}],
    [{"status": "404"}, {"status": 500, "level": ["debug", "alert"]}],
    {"status": [404, "200"], "tags": [["a"], ["b", "c"]], "user": {"id": [1, 2, 3]}},
    {"status": None, "level": None, "tags": [None], "user": None},
    {"status": True, "level": "Error", "tags": [True, False, "true"]},
    {"status": "true", "tags": ["50%", "a_b", "axb", "a\\b", 'say "x"', "日本", "ä", "Z", "z", "é", ""]},
    {"status": {"code": 200}, "tags": [{"a": "b"}], "user": "Ann"},
    {"status": [[200]], "tags": [[["a"]]], "user": [[{"id": 7}]]},
    {"status": "abc", "level": 3, "tags": ["007", "7", 7, -7, "-7", "+7", " 7", "7 ", "1e3", 1000, "0x7"]},
    {"status": 9007199254740993, "tags": ["9007199254740993", 12345678901234567890.5, "1" * 40, "1" * 41]},
    {"status": "2024-05-14T10:00:00Z", "level": "fatal", "tags": ["2024-05-14", "2024-05-15"]},
    {"status": -0.5, "tags": [0, 0.0, "-0", "0.50", 0.5], "user": {"id": "NULL", "name": "null"}},
)
MESSAGES = (
    "",
    "GET /a 200",
    "get /A 500",
    "50% done",
    "50 done",
    "a_b",
    "axb",
    "back\\slash",
    'say "x"',
    "日本 404",
    "o'x",
)
MOMENTS = (
    NOW,
    NOW.replace(microsecond=0),
    NOW + timedelta(seconds=1),
    NOW - timedelta(seconds=1),
    NOW - timedelta(minutes=5),
    DAY,
    DAY + ALMOST,
    DAY - timedelta(microseconds=1),
    DAY + timedelta(hours=10),
    DAY + timedelta(days=1),
    datetime(2024, 5, 13),
    datetime(2024, 5, 12, 23, 59, 59, 999_999),
    datetime(2024, 5, 1),
    datetime(2024, 4, 15),
    datetime(2024, 1, 1),
    datetime(2023, 12, 31, 23, 59, 59),
    datetime(2023, 5, 15),
    datetime(1970, 1, 1),
    datetime(9999, 12, 31, 12),
)
COLUMN_VALUES: dict[str, tuple[Any, ...]] = {
    "total": (None, 0, 7, 200, -5, 2_147_483_647),
    "price": (None, Decimal("0.10"), Decimal(7), Decimal("-5.5"), Decimal("12345678901234567890.123")),
    "ratio": (None, 0.1, 0.5, 7.0, -5.0, 1e300, float("inf")),
    "small": (None, 0.10000000149011612, 0.5, 7.0, 16_777_216.0),
    "ok": (None, True, False),
    "day": (None, date(2024, 5, 14), date(2024, 5, 15), date(2024, 4, 30), date(9999, 12, 31)),
    "local": (None, *MOMENTS[:9]),
    "owner": (None, "123e4567-e89b-12d3-a456-426614174000", "00000000-0000-0000-0000-000000000007"),
    "note": (None, "", "a", "B", "b", "ä", "200", "50%", "a_b", "NULL"),
    "tags": (None, [], ["a", "b"], ["ab", None], ["7", "ä"], ["50%"]),
    "counts": (None, [], [7], [1, 2, 7], [None, -5]),
    "times": (None, [], [DAY + timedelta(hours=3)], [NOW, DAY + ALMOST], [None, datetime(2024, 1, 1)]),
}


def sample_rows() -> list[Row]:
    rows = []
    for number in range(60):
        columns = {name: values[number % len(values)] for name, values in COLUMN_VALUES.items()}
        columns["metadata"] = DOCUMENTS[number % len(DOCUMENTS)]
        columns["extra"] = DOCUMENTS[(number * 7 + 3) % len(DOCUMENTS)]
        columns["event_message"] = MESSAGES[number % len(MESSAGES)]
        columns["timestamp"] = MOMENTS[number * 5 % len(MOMENTS)] if number % 20 != 19 else None
        rows.append(make_row(number, **columns))
    return rows


SAMPLE = sample_rows()
QUERIES = [
    line
    for line in Path(__file__).with_name("queries.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]


def kept(live_table: LiveTable, rules: Rules, rows: Sequence[Row]) -> list[str]:
    return sorted(row["id"] for row in rows if live_table.evaluation.keeps(rules, row))


@pytest.fixture
def sample(live_table: LiveTable) -> LiveTable:
    live_table.fill(SAMPLE)
    return live_table


@pytest.mark.parametrize("text", QUERIES)
def test_a_query_keeps_the_rows_that_the_rules_mean(sample: LiveTable, text: str) -> None:
    rules = parse_lql(text)
    assert sample.ids(rules) == kept(sample, rules, SAMPLE)


def test_the_queries_tell_rows_apart(sample: LiveTable) -> None:
    """Else the comparison above would prove little."""
    assert len(set(QUERIES)) == len(QUERIES) >= 150
    found = [len(kept(sample, parse_lql(text), SAMPLE)) for text in QUERIES]
    assert sum(0 < count < len(SAMPLE) for count in found) > 0.85 * len(QUERIES)


# ── any query over any rows

TEXTS = ("a", "b", "Z", "200", "200.0", "007", "-5", "+5", " 5", "1e3", "0x10", "true", "false", "NULL", "null", "")
MORE_TEXTS = (
    "ä",
    "日本",
    "50%",
    "a_b",
    "a\\b",
    'say "x"',
    "2024-05-14",
    "2024-05-14T10:00:00Z",
    "9007199254740993",
    "o'x",
)
NUMBERS = (0, 5, -5, 7, 200, 1000, Decimal("200.0"), Decimal("1.5"), Decimal("-0.25"), 9007199254740993, 10**25)
KEYS = ("a", "b", "level")
PATTERNS = ("^a", "0$", "[0-9]+", "ä|日", "(?i)A", "%", "^$", "^-?5$", "tru", r"\\", "b|Z", '"', ".")

scalars = st.one_of(
    st.sampled_from(TEXTS + MORE_TEXTS + LEVELS),
    st.sampled_from(NUMBERS),
    st.booleans(),
    st.none(),
    st.text("aé☃", max_size=3),
)
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3)
).map(numbers)
roots = st.one_of(st.just(MISSING), documents, st.lists(st.dictionaries(st.sampled_from(KEYS), documents), max_size=2))
moments = st.sampled_from(MOMENTS) | st.datetimes(datetime(2024, 5, 12), datetime(2024, 5, 16))
rows = st.fixed_dictionaries(
    {
        "metadata": roots,
        "extra": documents,
        "timestamp": st.none() | moments,
        "event_message": st.sampled_from(MESSAGES + TEXTS + MORE_TEXTS),
        **{name: st.sampled_from(values) for name, values in COLUMN_VALUES.items()},
    }
)

json_paths = st.sampled_from(
    ("metadata.a", "metadata.b", "metadata.a.b", "b.a", "a.b.level", "extra.a", "metadata", "extra")
)
values = st.builds(Value, st.sampled_from(TEXTS + MORE_TEXTS), st.booleans()) | st.builds(
    Value, st.sampled_from(NUMBERS).map(lambda number: format(Decimal(number), "f"))
)
number_values = st.sampled_from(NUMBERS).map(lambda number: Value(format(Decimal(number), "f")))
time_values = st.sampled_from(
    (
        "2024-05-14",
        "2024-05-15",
        "2024-05-14T10:00:00",
        "2024-05-14T23:59:59.999999",
        "1715680800",
        "2024-05-15T03:00:00+05:00",
    )
).map(Value)
equalities = st.sampled_from((Operator.EQUAL, Operator.LIST_INCLUDES))
orders = st.sampled_from(sorted(ORDER_OPERATORS))
regexps = st.sampled_from((Operator.REGEXP, Operator.LIST_INCLUDES_REGEXP))
patterns = st.sampled_from(PATTERNS).map(Value)
signs = st.booleans()


def comparisons(paths: st.SearchStrategy[str] | tuple[str, ...], *kinds: Any) -> st.SearchStrategy[Any]:
    paths = st.sampled_from(paths) if isinstance(paths, tuple) else paths
    return st.one_of([st.builds(FilterRule, paths, operators, found, signs) for operators, found in kinds])


def is_ordered(value: Value) -> bool:
    return value.quoted or value.text not in ("true", "false")


def ranges(paths: st.SearchStrategy[str] | tuple[str, ...], ends: Any) -> st.SearchStrategy[Any]:
    paths = st.sampled_from(paths) if isinstance(paths, tuple) else paths
    return st.builds(RangeRule, paths, ends, ends, signs)


nulls = (st.just(Operator.EQUAL), st.none())
days = st.dates(date(2024, 5, 11), date(2024, 5, 16)) | st.just(date(9999, 12, 31))
shorthands = st.one_of(
    st.sampled_from((Shorthand(ShorthandKind.TODAY), Shorthand(ShorthandKind.YESTERDAY))),
    st.builds(Shorthand, st.just(ShorthandKind.THIS), st.sampled_from(Unit)),
    st.builds(Shorthand, st.just(ShorthandKind.LAST), st.sampled_from(Unit), st.integers(1, 60)),
)
filters = st.one_of(
    comparisons(json_paths, (equalities, values), (regexps, patterns), (orders, values.filter(is_ordered)), nulls),
    ranges(json_paths, number_values) | ranges(json_paths, time_values.filter(lambda value: "-" in value.text)),
    st.builds(LevelRangeRule, st.sampled_from(LEVELS), st.sampled_from(LEVELS), signs),
    comparisons(
        (MESSAGE,), (st.just(Operator.STRING_CONTAINS) | equalities | orders, values), (regexps, patterns), nulls
    ),
    comparisons(("total", "price", "ratio", "small"), (equalities | orders, number_values), nulls),
    ranges(("total", "price", "ratio", "small"), number_values),
    comparisons(("ok",), (equalities, st.sampled_from((Value("true"), Value("false", quoted=True)))), nulls),
    comparisons(("day", "local"), (equalities | orders, time_values), nulls),
    ranges(("day", "local"), time_values),
    comparisons(("note", "owner"), (equalities | orders, values), (regexps, patterns), nulls),
    comparisons(("tags",), (equalities, values), (regexps, patterns), nulls),
    comparisons(("counts",), (equalities, number_values), nulls),
    comparisons(("times",), (equalities, time_values), nulls),
    st.builds(TimeRule, st.just(Operator.EQUAL) | orders, days | moments | st.just(Now()), signs),
    st.builds(TimeRangeRule, days, days, signs) | st.builds(TimeRangeRule, moments, moments, signs),
    st.builds(TimeShorthandRule, shorthands, signs),
)
queries = st.builds(lambda found: Rules(filters=tuple(found)), st.lists(filters, min_size=1, max_size=2))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(rows, min_size=1, max_size=6), st.lists(queries, min_size=6, max_size=12))
def test_any_query_keeps_the_rows_that_the_rules_mean(
    live_table: LiveTable, drawn: list[dict[str, Any]], asked: list[Rules]
) -> None:
    stored = [make_row(number, **columns) for number, columns in enumerate(drawn)]
    live_table.fill(stored)
    for rules in asked:
        assert live_table.ids(rules) == kept(live_table, rules, stored), rules


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(filters)
def test_a_dash_keeps_exactly_the_other_rows(live_table: LiveTable, rule: Any) -> None:
    live_table.fill(SAMPLE)
    both = [live_table.ids(Rules(filters=(replace(rule, negated=negated),))) for negated in (False, True)]
    assert sorted(both[0] + both[1]) == [row["id"] for row in SAMPLE]


# ── columns


PATHS = (
    "metadata.status",
    "metadata.tags",
    "metadata.user",
    "metadata.user.id",
    "metadata.user.name",
    "status",
    "missing",
)


@pytest.mark.parametrize(
    "path", [*PATHS, "metadata.user.id.x", "extra.status", "extra", "total", "timestamp", "owner", "tags"]
)
def test_a_selected_path_shows_its_value(sample: LiveTable, path: str) -> None:
    select = SelectRule(path, "shown")
    columns, found = sample.fetch(Rules(selects=(select, SelectRule("id"))))
    assert columns == ["shown", "id"]
    assert len(found) == len(SAMPLE)
    shown = {identifier: plain(value) for value, identifier in found}
    assert shown == {row["id"]: plain(sample.evaluation.selected(select, row)) for row in SAMPLE}


def plain(value: Any) -> Any:
    """Return a value as it can be compared: JSON null is NULL for a reader, text of JSON and JSON are not."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    if value is MISSING:
        return None
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    return value if value is None or isinstance(value, bool | str) else str(value)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(rows, min_size=1, max_size=4), st.lists(json_paths, min_size=1, max_size=5, unique=True))
def test_any_selection_shows_the_values_at_its_paths(
    live_table: LiveTable, drawn: list[dict[str, Any]], paths: list[str]
) -> None:
    stored = [make_row(number, **columns) for number, columns in enumerate(drawn)]
    live_table.fill(stored)
    selects = tuple(map(SelectRule, paths))
    columns, found = live_table.fetch(Rules(selects=(*selects, SelectRule("id"))))
    assert columns == [*paths, "id"]
    expected = {row["id"]: [plain(live_table.evaluation.selected(select, row)) for select in selects] for row in stored}
    assert {row[-1]: [plain(value) for value in row[:-1]] for row in found} == expected


@pytest.mark.parametrize("text", ["", "s:*", "s:m.status s:* s:id", "select:*"])
def test_without_selects_or_with_a_wildcard_every_column_comes_newest_first(sample: LiveTable, text: str) -> None:
    columns, found = sample.fetch(parse_lql(text))
    assert columns == list(TYPES)
    times = [row[1] for row in found if row[1] is not None]
    assert times == sorted(times, reverse=True)
    assert len(found) == len(SAMPLE)


def test_an_alias_called_timestamp_does_not_change_the_order(sample: LiveTable) -> None:
    _, found = sample.fetch(parse_lql("s:m.status@timestamp s:id s:timestamp@moment -t:9999-12-31 t:>=0001-01-01"))
    moments_found = [row[2] for row in found]
    assert moments_found == sorted(moments_found, reverse=True)


# ── charts


CHARTED = ("metadata.status", "metadata.tags", "metadata.user.id", "missing", "extra.user.id", "total", "price")


@pytest.mark.parametrize("period", Period)
@pytest.mark.parametrize("path", CHARTED)
@pytest.mark.parametrize("aggregate", Aggregate)
def test_a_chart_aggregates_each_bucket(sample: LiveTable, aggregate: Aggregate, path: str, period: Period) -> None:
    chart = ChartRule(aggregate, path, period)
    rules = Rules(chart=chart, filters=(TimeRule(Operator.LESS, date(2025, 1, 1)),))
    columns, found = sample.fetch(rules)
    assert columns == ["timestamp", aggregate.value]
    rows_kept = [row for row in SAMPLE if sample.evaluation.keeps(rules, row)]
    expected = sample.evaluation.charted(chart, rows_kept)
    assert [plain(start) for start, _ in found] == [start for start, _ in expected]
    exact = aggregate in (Aggregate.COUNT, Aggregate.COUNT_DISTINCT, Aggregate.SUM, Aggregate.MAXIMUM)
    for (_, value), (_, value_expected) in zip(found, expected, strict=True):
        assert (
            value == value_expected if exact or value is None else float(value) == pytest.approx(float(value_expected))
        )


@pytest.mark.parametrize(
    ("text", "path"),
    [("c:count(*)", "timestamp"), ("c:countd(*)", "timestamp"), ("c:count(note)", "note"), ("c:max(*)", "t")],
)
def test_a_chart_of_other_columns(sample: LiveTable, text: str, path: str) -> None:
    rules = parse_lql(f"{text} c:group_by(t::day) t:<2025-01-01 s:m.ignored")
    assert rules.chart is not None
    _, found = sample.fetch(rules)
    expected = sample.evaluation.charted(rules.chart, [row for row in SAMPLE if sample.evaluation.keeps(rules, row)])
    assert [tuple(map(plain, row)) for row in found] == [tuple(map(plain, row)) for row in expected]


def test_an_average_has_no_needless_zeros(live_table: LiveTable) -> None:
    live_table.fill([make_row(1, metadata={"n": 1}, total=2), make_row(2, metadata=[{"n": ["2", "x"]}], total=3)])
    for path in ("m.n", "total"):
        _, [(_, average)] = live_table.fetch(parse_lql(f"c:avg({path})"))
        assert str(average) in ("1.5", "2.5")


def test_numbers_that_no_double_has_fail_no_chart(live_table: LiveTable) -> None:
    absurd = [Decimal("1e400"), Decimal("-1e400"), Decimal("1e-400"), Decimal(0), Decimal("5")]
    live_table.fill([make_row(number, metadata={"n": value}) for number, value in enumerate(absurd)])
    for aggregate, expected in (("p50", 2.5), ("sum", 5), ("max", 5), ("avg", 2.5), ("count", 5)):
        _, [(_, value)] = live_table.fetch(parse_lql(f"c:{aggregate}(m.n)"))
        assert value == expected
    assert live_table.ids(parse_lql("m.n:>1e300")) == ["row-0000"]
