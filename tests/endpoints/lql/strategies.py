# ruff: noqa: DTZ001 - every datetime here is UTC without zone
"""Rows and queries for hypothesis: few names and near values, so that queries meet rows."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from endpoints.lql.rules import (
    MESSAGE,
    ORDER_OPERATORS,
    FilterRule,
    LevelRangeRule,
    Now,
    Operator,
    RangeRule,
    Rules,
    Shorthand,
    ShorthandKind,
    TimeRangeRule,
    TimeRule,
    TimeShorthandRule,
    Unit,
    Value,
)
from tests.endpoints.lql.evaluation import MISSING
from tests.endpoints.lql.live_table import numbers
from tests.endpoints.lql.sample import COLUMN_VALUES, LEVELS, MESSAGES, MOMENTS

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
    "2024-05-14 12:00:00.000000900 +0200",
    "2024-05-14t09:59z",
    "2024-05-15T00:30:00,5+05:00",
    "2024-02-30",
    "2024-05-14T25:00:00Z",
    "2024-05-14 deploy",
    "1715680800",
    "now",
    "infinity",
    "9007199254740993",
    "o'x",
)
NUMBERS = (0, 5, -5, 7, 200, 1000, Decimal("200.0"), Decimal("1.5"), Decimal("-0.25"), 9007199254740993, 10**25)
NUMBERS += (1715680800, 1715680800000, Decimal("1715680800000.5"), 1715680800000001)
KEYS = ("a", "b", "level", "a.b", 'x-y "z" \\')
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
    (
        *("metadata.a", "metadata.b", "metadata.a.b", "b.a", "a.b.level", "extra.a", "metadata", "extra"),
        *('metadata."a.b"', r'metadata.a."x-y \"z\" \\"', r'b."a.b"."x-y \"z\" \\"', 'extra."a.b"'),
    )
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
