"""Filters as SQL conditions: small ones, because a query of a hundred must stay within the sandbox's limits.

A condition on a column is a plain comparison with a parameter of the column's own type, so that indexes serve it and
partitions are pruned. A condition inside JSON is one call with a jsonpath. Conditions never fail on the values of a
row. A negated condition is ``IS NOT TRUE``: a row without the field stays.
"""

from __future__ import annotations

import struct
from datetime import date, datetime
from decimal import Decimal
from typing import Final

from endpoints.lql import sql_pieces
from endpoints.lql.fields import CastValue, Field, FieldType, logged_moment, plain_digits, read_number
from endpoints.lql.intervals import Bounds, between, compared, first_moment, last_moment, rule_bounds
from endpoints.lql.rules import ORDER_OPERATORS, FilterRule, LevelRangeRule, Operator, RangeRule
from endpoints.lql.schema import CheckedFilter
from endpoints.lql.sql_pieces import Bindings, quoted_name
from endpoints.sql.coercion import BIGINT
from endpoints.sql.parameters import ParameterType

_REGEXPS: Final = frozenset((Operator.REGEXP, Operator.LIST_INCLUDES_REGEXP))
_EQUALITIES: Final = frozenset((Operator.EQUAL, Operator.LIST_INCLUDES))


def lower_filter(checked: CheckedFilter, bindings: Bindings, *, now: datetime) -> str:
    """Return the condition; `now` is UTC without zone. Raises Fault for an interval that begins before the year 1."""
    rule, field = checked.rule, checked.field
    if isinstance(rule, FilterRule) and rule.value is None:
        return _null(field, bindings, negated=rule.negated)
    if isinstance(rule, FilterRule) and rule.operator in (*_REGEXPS, Operator.STRING_CONTAINS):
        condition = _text_condition(rule, field, bindings)
    elif not isinstance(rule, FilterRule | RangeRule | LevelRangeRule):
        condition = _in_time(field, rule_bounds(rule, now), bindings)
    elif field.type is FieldType.JSON:
        condition = _json_condition(rule, field, bindings)
    elif isinstance(rule, FilterRule):
        condition = _comparison(field, rule.operator, checked.values[0], bindings)
    elif isinstance(rule, RangeRule):
        condition = _range(field, checked.values, bindings)
    else:
        condition = f"{_column(field)} = ANY({bindings.bind(rule.levels, ParameterType.TEXT_LIST)})"
    return f"({condition}) IS NOT TRUE" if rule.negated else condition


def patterns(checked: CheckedFilter) -> tuple[tuple[str, int], ...]:
    """Return the regular expression of a filter and the filter's position, if it has one."""
    rule = checked.rule
    if isinstance(rule, FilterRule) and rule.operator in _REGEXPS and rule.value is not None:
        return ((rule.value.text, rule.position),)
    return ()


def json_column(field: Field) -> str:
    """Return a column of JSON as jsonb."""
    name = quoted_name(field.name)
    return f"{name}::jsonb" if field.stored_as == "json" else name


def _column(field: Field) -> str:
    """Return a column as a type that this module knows how to compare."""
    name = quoted_name(field.name)
    if field.type is FieldType.OTHER:
        return f"{name}::text[]" if field.is_list else f"{name}::text"
    return name


def _null(field: Field, bindings: Bindings, *, negated: bool) -> str:
    if field.type is not FieldType.JSON:
        return f"{quoted_name(field.name)} IS {'NOT ' if negated else ''}NULL"
    path = bindings.jsonpath(f"{sql_pieces.value_path(field.inside)} {sql_pieces.NOT_NULL}")
    exists = f"jsonb_path_exists({json_column(field)}, {path})"
    return exists if negated else f"{exists} IS NOT TRUE"


def _text_condition(rule: FilterRule, field: Field, bindings: Bindings) -> str:
    """Return the condition on the text of the value; in a list or in JSON, some value must fulfil it."""
    assert rule.value is not None  # noqa: S101 - NULL is not text
    if field.type is FieldType.JSON:
        path = bindings.jsonpath(f"{sql_pieces.value_path(field.inside)} {sql_pieces.SCALARS}")
        text = f"jsonb_path_query({json_column(field)}, {path}) #>> '{{}}'"
    elif field.is_list:
        text = f"unnest({quoted_name(field.name)}::text[])"
    else:
        text = quoted_name(field.name) if field.type is FieldType.STRING else f"{quoted_name(field.name)}::text"
    # strpos, because % and _ would have a meaning in LIKE.
    value = bindings.bind(rule.value.text)
    condition = f"{text} ~ {value}" if rule.operator in _REGEXPS else f"strpos({text}, {value}) > 0"
    return f"true IN (SELECT {condition})" if field.is_list or field.type is FieldType.JSON else condition


def _json_condition(rule: FilterRule | RangeRule | LevelRangeRule, field: Field, bindings: Bindings) -> str:
    def found(condition: sql_pieces.Condition) -> str:
        path = bindings.jsonpath(f"{sql_pieces.value_path(field.inside)} {condition.filter}")
        return f"({json_column(field)}, {path}, {bindings.jsonb(condition.variables)})"

    bounds = moment_bounds(rule)
    exists = f"jsonb_path_exists{found(_condition_of_value(rule, bounds))}"
    if bounds is None:
        return exists
    # Finer than a microsecond is cut, as in the times of rows; PostgreSQL would round.
    pattern, kept = bindings.bind("[.,]([0-9]{1,6})[0-9]*"), bindings.bind(r".\1")
    moment = f"try_timestamp(regexp_replace(e #>> '{{}}', {pattern}, {kept}))"
    inside = [f"{moment} {_time_comparison(field, bound.operator, bound.moment, bindings)}" for bound in bounds]
    texts = f"jsonb_path_query{found(sql_pieces.moment_texts(bounds))} AS e(e)"
    return f"({exists} OR true IN (SELECT {' AND '.join(inside)} FROM {texts}))"  # noqa: S608 - bound values


def moment_bounds(rule: FilterRule | RangeRule | LevelRangeRule) -> Bounds | None:
    """Return between which moments a value inside JSON matches; None if the rule's values are no moments."""
    if isinstance(rule, RangeRule):
        lower, upper = (logged_moment(end.text, in_unix_time=True) for end in (rule.lower, rule.upper))
        return between(first_moment(lower), last_moment(upper)) if lower and upper else None
    if isinstance(rule, LevelRangeRule) or rule.value is None or rule.operator not in (*_EQUALITIES, *ORDER_OPERATORS):
        return None
    operator = Operator.EQUAL if rule.operator in _EQUALITIES else rule.operator
    # A number that equals one is an id or a count more often than a time.
    is_time = not rule.value.quoted and operator is not Operator.EQUAL
    moment = logged_moment(rule.value.text, in_unix_time=is_time)
    return None if moment is None else compared(operator, moment)


def _condition_of_value(rule: FilterRule | RangeRule | LevelRangeRule, bounds: Bounds | None) -> sql_pieces.Condition:
    if isinstance(rule, LevelRangeRule):
        return sql_pieces.among(rule.levels)
    value = rule.lower if isinstance(rule, RangeRule) else rule.value
    if bounds is not None and value is not None and read_number(value.text) is None:
        return sql_pieces.beside_moments(bounds, rule)
    if isinstance(rule, RangeRule):
        ends = (Operator.GREATER_OR_EQUAL, rule.lower), (Operator.LESS_OR_EQUAL, rule.upper)
        return sql_pieces.ordered(*ends)
    assert rule.value is not None  # noqa: S101 - NULL has a condition of its own
    if rule.operator in _EQUALITIES:
        return sql_pieces.equal(rule.value)
    return sql_pieces.ordered((rule.operator, rule.value))


def _range(field: Field, ends: tuple[CastValue, ...], bindings: Bindings) -> str:
    lower, upper = ends
    if isinstance(lower, date) and isinstance(upper, date):
        return _in_time(field, between(first_moment(lower), last_moment(upper)), bindings)
    both = ((Operator.GREATER_OR_EQUAL, lower), (Operator.LESS_OR_EQUAL, upper))
    return " AND ".join(_comparison(field, operator, end, bindings) for operator, end in both)


def _comparison(field: Field, operator: Operator, value: CastValue, bindings: Bindings) -> str:
    if operator is Operator.LIST_INCLUDES:
        operator = Operator.EQUAL
    if isinstance(value, date):
        return _in_time(field, compared(operator, value), bindings)
    parameter = _parameter(value, field, bindings)
    if field.is_list:
        return f"{parameter} = ANY({_column(field)})"
    if isinstance(value, str) and operator is not Operator.EQUAL:
        # By code point, independent of the database's collation.
        return f"convert_to({_column(field)}, 'UTF8') {operator.value} convert_to({parameter}, 'UTF8')"
    return f"{_column(field)} {operator.value} {parameter}"


def _parameter(value: str | bool | Decimal, field: Field, bindings: Bindings) -> str:
    """Return a value as a parameter that the column's indexes can serve."""
    if isinstance(value, str):
        return bindings.bind(value)
    if isinstance(value, bool):
        return bindings.bind("true" if value else "false", ParameterType.BOOLEAN)
    if field.stored_as in ("real", "double precision"):
        return f"{bindings.bind(_float_text(value, field.stored_as))}::{field.stored_as}"
    is_whole = value == value.to_integral_value() and int(value) in BIGINT
    if field.type is FieldType.INTEGER and is_whole:
        return bindings.bind(str(int(value)), ParameterType.INTEGER)
    return bindings.bind(plain_digits(value), ParameterType.NUMBER)


def _float_text(value: Decimal, stored_as: str) -> str:
    """Return the nearest number of the type; PostgreSQL refuses numbers that are too large or too small for it."""
    nearest = float(value)
    if stored_as == "real":
        try:
            (nearest,) = struct.unpack("f", struct.pack("f", nearest))
        except OverflowError:
            nearest = float("inf") if nearest > 0 else float("-inf")
    return repr(nearest).replace("inf", "Infinity")


def _in_time(field: Field, bounds: Bounds, bindings: Bindings) -> str:
    name = quoted_name(field.name)
    if field.is_list:
        element = Field("value", field.type, stored_as=field.stored_as)
        condition = _in_time(element, bounds, bindings)
        return f'EXISTS (SELECT 1 FROM unnest({name}) AS e("value") WHERE {condition})'  # noqa: S608 - quoted names
    comparisons = [_time_comparison(field, bound.operator, bound.moment, bindings) for bound in bounds]
    return " AND ".join(f"{name} {comparison}" for comparison in comparisons)


def _time_comparison(field: Field, operator: Operator, moment: datetime, bindings: Bindings) -> str:
    if field.stored_as == "date":
        return _day_comparison(operator, moment, bindings)
    text = moment.isoformat(timespec="microseconds") + "Z"
    parameter = bindings.bind(text, ParameterType.TIMESTAMP)
    if field.stored_as == "timestamp without time zone":
        return f"{operator.value} {parameter} AT TIME ZONE 'UTC'"
    return f"{operator.value} {parameter}"


def _day_comparison(operator: Operator, moment: datetime, bindings: Bindings) -> str:
    """Return the comparison of a day (its midnight) with a moment, which may lie between two midnights."""
    day = bindings.bind(moment.date().isoformat(), ParameterType.DATE)
    if moment == first_moment(moment.date()):
        return f"{operator.value} {day}"
    if operator is Operator.EQUAL:
        return f"<> {day} AND false"
    behind = operator in (Operator.GREATER, Operator.GREATER_OR_EQUAL)
    return f"{'>' if behind else '<='} {day}"
