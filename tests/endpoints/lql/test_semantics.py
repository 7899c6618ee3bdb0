"""What queries mean: PostgreSQL's rows against a plain evaluation in Python, for a table of queries and for any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from endpoints.lql.parser import parse_lql
from endpoints.lql.rules import (
    Aggregate,
    ChartRule,
    Operator,
    Period,
    Rules,
    SelectRule,
    TimeRule,
)
from tests.endpoints.lql.evaluation import MISSING, Row
from tests.endpoints.lql.live_table import TYPES, LiveTable, make_row
from tests.endpoints.lql.sample import SAMPLE
from tests.endpoints.lql.strategies import filters, json_paths, queries, rows

pytestmark = pytest.mark.sql

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


# ── moments inside JSON

AT_TEN = (
    "2026-11-25T10:00:00Z", "2026-11-25T12:00:00+02:00", "2026-11-25T12:00:00+0200", "2026-11-25T12:00:00+02",
    "2026-11-25 10:00:00", "2026-11-25 10:00", "2026-11-25t10:00:00z", "2026-11-25 10:00:00 UTC",
    "2026-11-24T23:00:00-11:00", "2026-11-26T00:00:00+14:00", "2026-11-25T10:00:00.000",
    "2026-11-25 10:00:00,000000999",
    1795600800, 1795600800000, 1795600800000000,
)  # fmt: skip
BEFORE_TEN = (
    "2026-11-25", "2026-11-25T09:59:59.999999999Z", "2026-11-25T11:00:00+02:00", "2026-11-25T10:30:00+14:00",
    "0001-01-01T00:00:00Z", 1795600799, Decimal("1795600799999.9"),
)  # fmt: skip
AFTER_TEN = (
    "2026-11-25T10:00:00.000001Z", "2026-11-25T09:00:00-02:00", "2026-11-26", "9999-12-31T23:59:59Z", 1795600801,
    Decimal("1795600800000.5"),
)  # fmt: skip
NO_MOMENT = (
    "2026-11-25T24:61:00Z", "2026-02-30", "2026-13-01T00:00:00Z", "2026-11-25T10", "2026-11", "20261125", "now",
    "today", "epoch", "infinity", "-infinity", "2026-11-25T10:00:00 Europe/Nowhere", "2026-11-25T10:00:00+25:00", "",
    "x2026-11-25", "2026-11-25\n", "10:00:00", "2026-W48-3", "2026-11-25 10:00:00 BC", "1795600800", 179560080, True,
    None, {"at": "2026-11-25T10:00:00Z"}, "٢٠٢٦-١١-٢٥", "x" * 100_000, "2026-11-25T10:00:00." + "0" * 100_000,
)  # fmt: skip
TIMES = (*AT_TEN, *BEFORE_TEN, *AFTER_TEN, *NO_MOMENT)


@pytest.mark.parametrize("written", ["2026-11-25T10:00:00Z", "2026-11-25T12:00:00+02:00", '"2026-11-25 12:00 +0200"'])
@pytest.mark.parametrize(
    ("sign", "expected"),
    [
        (":>=", (*AT_TEN, *AFTER_TEN)),
        (":>", AFTER_TEN),
        (":<=", (*AT_TEN, *BEFORE_TEN)),
        (":<", BEFORE_TEN),
        (":", AT_TEN),
        (":@>", AT_TEN),
    ],
)
def test_moments_inside_json_are_compared_as_such(
    live_table: LiveTable, sign: str, expected: tuple[object, ...], written: str
) -> None:
    live_table.fill([make_row(number, metadata=[{"time": value}]) for number, value in enumerate(TIMES)])
    others = [] if not written.startswith('"') or sign in (":", ":@>") else NO_MOMENT
    found = [TIMES[int(name.removeprefix("row-"))] for name in live_table.ids(parse_lql(f"m.time{sign}{written}"))]
    assert [value for value in found if value not in others] == [value for value in TIMES if value in expected]
    kept_by_not = live_table.ids(parse_lql(f"-m.time{sign}{written}"))
    assert len(kept_by_not) == len(TIMES) - len(found)


@pytest.mark.parametrize("written", ["1795600800", "1795600800000", "1795600800000000", "1795600800.0"])
def test_unix_time_has_an_order_among_text_that_reads_as_moments(live_table: LiveTable, written: str) -> None:
    texts = [value for value in TIMES if isinstance(value, str) and not value.isdecimal()]
    live_table.fill([make_row(number, metadata={"time": value}) for number, value in enumerate(texts)])

    def found(lql: str) -> list[str]:
        return [texts[int(name.removeprefix("row-"))] for name in live_table.ids(parse_lql(lql))]

    assert found(f"m.time:>={written}") == [text for text in texts if text in (*AT_TEN, *AFTER_TEN)]
    assert found(f"m.time:<{written}") == [text for text in texts if text in BEFORE_TEN]
    assert found(f"m.time:{written}..{written}") == [text for text in texts if text in AT_TEN]
    assert found(f"m.time:{written}") == []


# ── any query over any rows


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
    # Not every name in quotes can be a column's.
    selects = tuple(SelectRule(path, f"c{number}" if '"' in path else None) for number, path in enumerate(paths))
    columns, found = live_table.fetch(Rules(selects=(*selects, SelectRule("id"))))
    assert columns == [*(select.alias or select.path for select in selects), "id"]
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
    rules = parse_lql(f"{text} c:group_by(t::day) t:<2025-01-01")
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
