"""The meaning of a query's paths in a table, and whether its values fit there.

The first segment of a path is a column if one has that name; otherwise the path is looked up inside `metadata`. Only
JSON columns have something inside, and its types are not known; a declared schema names every path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from endpoints.lql.fields import CastValue, Field, FieldType, cast_value, column_field, read_boolean, read_number
from endpoints.lql.refusals import Fault
from endpoints.lql.rules import (
    LEVEL_PATH,
    MESSAGE,
    METADATA,
    ORDER_OPERATORS,
    TIMESTAMP,
    Aggregate,
    ChartRule,
    Filter,
    FilterRule,
    LevelRangeRule,
    Operator,
    RangeRule,
    Rules,
    Value,
    keys_of,
)
from endpoints.results.outcomes import Column
from endpoints.sql.sandbox.vocabulary import similar_names

# Columns by name, or declared fields by path.
Schema = Mapping[str, Field]

_TEXT_OPERATORS = frozenset((Operator.REGEXP, Operator.LIST_INCLUDES_REGEXP, Operator.STRING_CONTAINS))
_COUNTS = frozenset((Aggregate.COUNT, Aggregate.COUNT_DISTINCT))


@dataclass(frozen=True, slots=True)
class CheckedFilter:
    """A filter, its field, and its values in the field's type; a time rule and NULL have no values."""

    rule: Filter
    field: Field
    values: tuple[CastValue, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckedRules:
    """The filters and, if there is a chart, the chart's field."""

    filters: tuple[CheckedFilter, ...]
    charted: Field | None


def table_schema(columns: Sequence[Column]) -> Schema:
    """Return the schema of a table with these columns."""
    return {column.name: column_field(column) for column in columns}


def check_rules(rules: Rules, schema: Schema) -> CheckedRules:
    """Return the filters and the chart with their fields and values.

    Raises InvalidLQL for the first path without a meaning and the first value that does not fit its field. Selections
    are not checked.
    """
    try:
        filters = tuple(_check_filter(rule, schema) for rule in rules.filters)
        return CheckedRules(filters, None if rules.chart is None else _check_chart(rules.chart, schema))
    except Fault as fault:
        fault.refuse(rules.text)


def resolve(path: str, schema: Schema, *, position: int) -> Field:
    """Return the meaning of the path. Raises Fault, which lists the columns, if it has none."""
    if path in schema:
        return schema[path]
    first, *inside = keys_of(path)
    column = schema.get(first)
    if column is None and path not in (MESSAGE, TIMESTAMP):
        column, inside = schema.get(METADATA), [first, *inside]
    if column is not None and column.type is FieldType.JSON:
        return replace(column, inside=tuple(inside))
    if column is not None and first == column.name:
        reason = f"`{first}` is not JSON but {column.described}, so there is no `{path}`"
        raise Fault(position, reason, found=path)
    similar = similar_names(path, schema)
    hint = f"Did you mean {' or '.join(f'`{name}`' for name in similar)}?" if similar else ""
    raise Fault(position, f"there is no field `{path}`", found=path, expected=_listed(schema), hint=hint)


def timestamp_field(schema: Schema, *, position: int) -> Field:
    """Return the field `timestamp`. Raises Fault if there is none or it is not a time."""
    field = resolve(TIMESTAMP, schema, position=position)
    if field.type is not FieldType.DATETIME or field.is_list:
        raise Fault(position, f"`{TIMESTAMP}` is {field.described}, not a time")
    return field


def _listed(schema: Schema) -> list[str]:
    listed = [f"`{name}`" for name in schema]
    if METADATA in schema and schema[METADATA].type is FieldType.JSON:
        listed.append(f"a path inside `{METADATA}`")
    return listed


def _check_filter(rule: Filter, schema: Schema) -> CheckedFilter:
    if isinstance(rule, FilterRule):
        return _check_comparison(rule, schema)
    if isinstance(rule, RangeRule):
        return _check_range(rule, schema)
    if not isinstance(rule, LevelRangeRule):
        return CheckedFilter(rule, timestamp_field(schema, position=rule.position))
    field = resolve(LEVEL_PATH, schema, position=rule.position)
    if field.type not in (FieldType.STRING, FieldType.JSON) or field.is_list:
        raise Fault(rule.position, f"`{LEVEL_PATH}` is {field.described}, which has no levels")
    return CheckedFilter(rule, field, rule.levels)


def _check_comparison(rule: FilterRule, schema: Schema) -> CheckedFilter:
    field = resolve(rule.path, schema, position=rule.position)
    if rule.value is None:
        return CheckedFilter(rule, field)
    _refuse_unstorable(rule.value, rule)
    if rule.operator in _TEXT_OPERATORS:
        return CheckedFilter(rule, field, (rule.value.text,))
    if rule.operator in ORDER_OPERATORS:
        _refuse_unordered(field, rule)
        is_boolean = not rule.value.quoted and read_boolean(rule.value.text) is not None
        if field.type is FieldType.JSON and is_boolean:
            reason = f"`{rule.value.text}` has no order, so `{rule.operator.value}` cannot compare with it"
            raise Fault(rule.position, reason, found=rule.value.text, hint="Put it in double quotes to compare text.")
    return CheckedFilter(rule, field, (_cast(rule.value, field, rule),))


def _check_range(rule: RangeRule, schema: Schema) -> CheckedFilter:
    field = resolve(rule.path, schema, position=rule.position)
    _refuse_unordered(field, rule)
    ends = (rule.lower, rule.upper)
    for end in ends:
        _refuse_unstorable(end, rule)
    if field.type is FieldType.JSON and len({read_number(end.text) is None for end in ends}) > 1:
        reason = f"a mixed range: one end for `{rule.path}` is a number, the other is not"
        raise Fault(rule.position, reason, expected=("two numbers", "two dates or times"))
    return CheckedFilter(rule, field, tuple(_cast(end, field, rule) for end in ends))


def _check_chart(chart: ChartRule, schema: Schema) -> Field:
    field = resolve(chart.path, schema, position=chart.position)
    if chart.aggregate in _COUNTS:
        return field
    ordered = chart.aggregate is Aggregate.MAXIMUM and field.type is FieldType.DATETIME
    if field.is_list or not (field.type.is_number or ordered or field.type is FieldType.JSON):
        reason = f"`{chart.aggregate.value}` needs numbers, and `{chart.path}` is {field.described}"
        raise Fault(chart.position, reason, found=f"{chart.aggregate.value}({chart.path})")
    return field


def _cast(value: Value, field: Field, rule: FilterRule | RangeRule) -> CastValue:
    return cast_value(value.text, field.type, path=rule.path, position=rule.position)


def _refuse_unordered(field: Field, rule: FilterRule | RangeRule) -> None:
    if field.is_list or field.type is FieldType.BOOLEAN:
        expected = ("`:`", "`:@>`", "`:@>~`") if field.is_list else ("`:true`", "`:false`")
        raise Fault(rule.position, f"`{rule.path}` is {field.described}, which has no order", expected=expected)


def _refuse_unstorable(value: Value, rule: FilterRule | RangeRule) -> None:
    # PostgreSQL accepts neither in any text.
    if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in value.text):
        raise Fault(rule.position, f"the value for `{rule.path}` has a character that no log row can have")
