"""The typed cases of the language, and what the paths of a query mean in the tables of this service."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from endpoints.errors import InvalidLQL
from endpoints.lql.fields import Field, FieldType, column_field
from endpoints.lql.parser import parse_lql
from endpoints.lql.rules import (
    FilterRule,
    LevelRangeRule,
    Now,
    RangeRule,
    Rules,
    TimeRangeRule,
    TimeRule,
    Value,
)
from endpoints.lql.rules import Operator as Op
from endpoints.lql.schema import CheckedFilter, Schema, check_rules, table_schema
from endpoints.results.outcomes import Column
from tests.files import cases

CASES = [case for case in cases("lql.jsonl") if case["mode"] == "typed"]
RELATIVE = "a time relative to the clock"
COLUMNS = (
    Column("timestamp", "timestamp(3) with time zone"),
    Column("id", "text"),
    Column("event_message", "text"),
    Column("metadata", "jsonb"),
    Column("total_rest_requests", "bigint"),
    Column("ratio", "numeric(10,2)"),
    Column("ok", "boolean"),
    Column("tags", "character varying(20)[]"),
    Column("address", "inet"),
)


def declared_schema(types: dict[str, str]) -> Schema:
    """Return the schema of a case, which names types as it likes: `integer`, or `list:integer`."""
    return {
        path: Field(path, FieldType(type_.removeprefix("list:")), is_list="list:" in type_)
        for path, type_ in types.items()
    }


@pytest.mark.parametrize("case", CASES)
def test_typed_case(case: dict[str, Any]) -> None:
    schema = declared_schema(case["schema"])
    if case.get("recommended", {}).get("kind", case["kind"]) == "error":
        with pytest.raises(InvalidLQL):
            check_rules(parse_lql(case["lql"]), schema)
        return
    checked = check_rules(parse_lql(case["lql"]), schema)
    assert [pair for filter_ in checked.filters for pair in told(filter_)] == wanted(case)
    types = [rule["value_type"] for rule in case["rules"] if "value_type" in rule]
    assert types == ([checked.charted.type.value] if checked.charted else [])


def wanted(case: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return each path and value of the case's filters, one for every end of a range."""
    pairs = []
    for rule in case["rules"]:
        if rule["type"] == "filter":
            values = rule.get("values", [rule.get("value")])
            pairs += [(rule["path"], plain(value)) for value in (values if isinstance(values, list) else [values])]
    return pairs


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        ((kind, text),) = value.items()
        return {"$date": date.fromisoformat, "$datetime": datetime.fromisoformat}.get(kind, lambda _: RELATIVE)(text)
    return Decimal(str(value)) if isinstance(value, int | float) and not isinstance(value, bool) else value


def told(checked: CheckedFilter) -> list[tuple[str, Any]]:
    """Return the path and the values of a filter in the same form."""
    rule = checked.rule
    if isinstance(rule, FilterRule | RangeRule | LevelRangeRule):
        path = "metadata.level" if isinstance(rule, LevelRangeRule) else rule.path
        return [(path, value) for value in checked.values or [None]]
    if isinstance(rule, TimeRangeRule):
        return [("timestamp", rule.lower), ("timestamp", rule.upper)]
    is_known = isinstance(rule, TimeRule) and not isinstance(rule.moment, Now)
    return [("timestamp", rule.moment if is_known else RELATIVE)]


# ── tables


@pytest.mark.parametrize(
    ("path", "column", "inside"),
    [
        ("id", "id", ()),
        ("timestamp", "timestamp", ()),
        ("metadata", "metadata", ()),
        ("metadata.id", "metadata", ("id",)),
        ("metadata.request.method", "metadata", ("request", "method")),
        ("request.method", "metadata", ("request", "method")),
        ("level", "metadata", ("level",)),
        ("metadata.metadata", "metadata", ("metadata",)),
        ("metadata.event_message", "metadata", ("event_message",)),
    ],
)
def test_the_first_segment_is_a_column_or_else_inside_metadata(path: str, column: str, inside: tuple[str, ...]) -> None:
    rule = FilterRule(path, Op.EQUAL, None)
    (checked,) = check_rules(Rules(filters=(rule,)), table_schema(COLUMNS)).filters
    assert (checked.field.name, checked.field.inside) == (column, inside)


@pytest.mark.parametrize(
    ("lql", "message"),
    [
        ("id.x:1", "`id` is not JSON but text, so there is no `id.x`"),
        ("tags.0:a", "`tags` is not JSON but a list of character varying"),
        ("total_rest_requests:abc", "expected number for `total_rest_requests`, got 'abc'"),
        ('total_rest_requests:>"x y"', "expected number for `total_rest_requests`, got 'x y'"),
        ("ratio:1..2024-01-01", "the ends of the range"),
        ("ok:yes", "expected boolean for `ok`, got 'yes'. Expected `true` or `false`"),
        ("ok:>true", "`ok` is boolean, which has no order"),
        ("tags:>a", "`tags` is a list of character varying, which has no order"),
        ("m.flag:>true", "`true` has no order"),
        ("m.flag:<=false", "`false` has no order"),
        ("c:avg(id)", "`avg` needs numbers, and `id` is text"),
        ("c:p95(t)", "`p95` needs numbers, and `timestamp` is timestamp with time zone"),
        ("c:sum(*)", "`sum` needs numbers"),
        ("c:max(id)", "`max` needs numbers"),
        ("c:avg(tags)", "`avg` needs numbers, and `tags` is a list of character varying"),
        ("m.a:1 total_rest_requests:x", "Line 1, column 7: expected number"),
    ],
)
def test_refuses_what_does_not_fit_the_table(lql: str, message: str) -> None:
    with pytest.raises(InvalidLQL) as refusal:
        check_rules(parse_lql(lql), table_schema(COLUMNS))
    assert message in refusal.value.message


@pytest.mark.parametrize(
    "lql",
    [
        'm.flag:>"true"',
        "total_rest_requests:1.5",
        'total_rest_requests:"7"',
        "address:10.0.0.1",
        "c:max(*)",
        "c:sum(m.x)",
    ],
)
def test_accepts_what_fits_the_table(lql: str) -> None:
    check_rules(parse_lql(lql), table_schema(COLUMNS))


@pytest.mark.parametrize(
    "lql", ["stauts:1", "foo", "~foo", "event_message:x", "c:count(stauts)", "m.level:info..error"]
)
def test_lists_the_columns_of_a_table_without_metadata(lql: str) -> None:
    columns = (Column("timestamp", "date"), Column("status", "integer"))
    with pytest.raises(InvalidLQL) as refusal:
        check_rules(parse_lql(lql), table_schema(columns))
    (detail,) = refusal.value.details
    assert detail["expected"] == ["`timestamp`", "`status`"]
    assert ("hint" in detail) == ("stauts" in lql)


@pytest.mark.parametrize("lql", ["foo", "~foo", "event_message:x", "t:today", "t:>2024-01-01"])
def test_never_looks_for_the_message_and_the_time_inside_metadata(lql: str) -> None:
    with pytest.raises(InvalidLQL, match=r"there is no field `(event_message|timestamp)`"):
        check_rules(parse_lql(lql), table_schema((Column("metadata", "jsonb"),)))


@pytest.mark.parametrize("type_", ["text", "jsonb", "timestamp with time zone[]", "time without time zone"])
def test_a_time_filter_needs_a_time(type_: str) -> None:
    with pytest.raises(InvalidLQL, match="not a time"):
        check_rules(parse_lql("t:today"), table_schema((Column("timestamp", type_),)))


@pytest.mark.parametrize("type_", ["integer", "text[]", "boolean"])
def test_levels_need_text(type_: str) -> None:
    with pytest.raises(InvalidLQL, match="has no levels"):
        check_rules(parse_lql("m.level:info..error"), table_schema((Column("metadata.level", type_),)))


def test_refuses_characters_that_no_text_of_postgresql_has() -> None:
    for text in ("a\0b", "\ud800"):
        for rule in (FilterRule("id", Op.EQUAL, Value(text)), RangeRule("id", Value("a"), Value(text))):
            with pytest.raises(InvalidLQL, match="no log row can have"):
                check_rules(Rules(filters=(rule,)), table_schema(COLUMNS))


def test_refuses_a_range_of_a_number_and_a_text_inside_json() -> None:
    rule = RangeRule("m", Value("1"), Value("2024-01-01"))
    with pytest.raises(InvalidLQL, match="a mixed range"):
        check_rules(Rules(filters=(rule,)), table_schema(COLUMNS))


@pytest.mark.parametrize(
    ("type_", "field_type", "stored_as", "is_list"),
    [
        ("numeric(10,2)", FieldType.FLOAT, "numeric", False),
        ("timestamp(3) without time zone", FieldType.DATETIME, "timestamp without time zone", False),
        ("character varying(20)[]", FieldType.STRING, "character varying", True),
        ("smallint", FieldType.INTEGER, "smallint", False),
        ("json", FieldType.JSON, "json", False),
        ("jsonb[]", FieldType.OTHER, "jsonb", True),
        ("uuid", FieldType.OTHER, "uuid", False),
        ("interval", FieldType.OTHER, "interval", False),
    ],
)
def test_reads_the_types_of_postgresql(type_: str, field_type: FieldType, stored_as: str, is_list: bool) -> None:
    field = column_field(Column("c", type_))
    assert (field.type, field.stored_as, field.is_list) == (field_type, stored_as, is_list)
