"""Every line of tests/cases/lql.jsonl that parsing decides; what a schema decides is in test_schema.py.

A case tells what the language's reference does, defects included, and in `recommended` what is right where that
differs. `DEVIATIONS` are the lines that this language rules otherwise without such a field.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from endpoints.errors import InvalidLQL
from endpoints.lql import (
    ChartRule,
    FilterRule,
    FromRule,
    LevelRangeRule,
    Now,
    Operator,
    RangeRule,
    SelectRule,
    TimeRangeRule,
    TimeRule,
    TimeShorthandRule,
    Value,
    parse_lql,
    print_lql,
)
from tests.files import cases

CASES = cases("lql.jsonl")
DEVIATIONS = {
    "a:1b:2": "white space must separate clauses",
}
# The reference stops before these clauses, which are read here.
READ_TO_THE_END = {
    "a:b\tc:d": [{"type": "filter", "path": "c", "operator": "=", "value": "d"}],
}
ENCODED_OTHERWISE = {
    "m.created_at:>=2026-03-17T14:47:02.000Z m.created_at:<=1710683222000": "times of fields are as written",
}
TEXT_OPERATORS = (Operator.STRING_CONTAINS, Operator.REGEXP, Operator.LIST_INCLUDES_REGEXP)


def right_outcome(case: dict[str, Any]) -> dict[str, Any]:
    """Return the case with what is right in place of what the reference does."""
    if case["lql"] in DEVIATIONS:
        return case | {"kind": "error", "rules": []}
    if case["lql"] in READ_TO_THE_END:
        return case | {"rules": case["rules"] + READ_TO_THE_END[case["lql"]]}
    recommended = case.get("recommended", {})
    if recommended.get("kind") == "error":
        return case | {"kind": "error", "rules": []}
    return case | {key: recommended[key] for key in ("kind", "rules") if key in recommended}


def is_decided_by_schema(case: dict[str, Any]) -> bool:
    """Return whether the case is an error only for what the schema declares or leaves out."""
    error = case.get("error") or ""
    return case["mode"] == "typed" and error.startswith(("LQL parser error", "Query syntax error"))


RIGHT = [right_outcome(case) for case in CASES]
ACCEPTED = [case for case in RIGHT if case["kind"] == "ok"]
DECIDED_BY_SCHEMA = [case for case in RIGHT if is_decided_by_schema(case)]
REFUSED = [case for case in RIGHT if case["kind"] == "error" and not is_decided_by_schema(case)]


# ── Rules in the form of the cases ──


def as_case(rule: object, text_paths: frozenset[str]) -> list[dict[str, Any]]:
    """Return the rule as the case file writes it: one, or one per level. Values of `text_paths` are text."""
    match rule:
        case FromRule(table):
            return [{"type": "from", "table": table}]
        case ChartRule(aggregate, path, period):
            return [{"type": "chart", "path": path, "aggregate": aggregate, "period": period}]
        case SelectRule(path, alias):
            written = {"type": "select", "path": path, "wildcard": rule.is_wildcard}
            return [written | ({"alias": alias} if alias else {})]
        case LevelRangeRule():
            return [filter_case(rule, path="metadata.level", operator="=", value=level) for level in rule.levels]
        case FilterRule(path, operator, None):
            return [filter_case(rule, path=path, operator=operator, value=None, value_is_null=True)]
        case FilterRule(path, operator, value):
            is_text = value.quoted or operator in TEXT_OPERATORS or path in text_paths
            return [filter_case(rule, path=path, operator=operator, value=value_case(value, is_text=is_text))]
        case RangeRule(path, lower, upper):
            values = [value_case(lower, is_text=False), value_case(upper, is_text=False)]
            return [filter_case(rule, path=path, operator="range", values=values)]
        case _:
            return [time_case(rule)]


def filter_case(rule: Any, **fields: Any) -> dict[str, Any]:
    """Return a filter with the modifiers of the rule; absent ones are left out, as in the cases."""
    quoted = getattr(getattr(rule, "value", None), "quoted", False)
    modifiers: dict[str, Any] = {name: True for name, on in (("negate", rule.negated), ("quoted", quoted)) if on}
    if getattr(rule, "origin", None):
        modifiers["timestamp_origin"] = rule.origin
    return {"type": "filter", **fields, "modifiers": modifiers}


def time_case(rule: Any) -> dict[str, Any]:
    match rule:
        case TimeRule(operator, Now()):
            return filter_case(rule, path="timestamp", operator=operator, shorthand="now", value={"$rel": "now"})
        case TimeRule(operator, moment):
            return filter_case(rule, path="timestamp", operator=operator, value=moment)
        case TimeRangeRule(lower, upper):
            return filter_case(rule, path="timestamp", operator="range", values=[lower, upper])
        case TimeShorthandRule(shorthand):
            unit = f"@{shorthand.count or ''}{shorthand.unit}" if shorthand.unit else ""
            text = f"{shorthand.kind}{unit}"
            written = filter_case(rule, path="timestamp", operator="range", shorthand=text, values={"$rel": text})
            written["modifiers"]["timestamp_origin"] = "absolute"  # always, so the rule does not say it
            return written
    raise TypeError(rule)


def value_case(value: Value, *, is_text: bool) -> object:
    """Return the value cast as it is without a schema; quoted values, words and patterns are text."""
    if is_text:
        return value.text
    if value.text in ("true", "false"):
        return value.text == "true"
    try:
        return Decimal(value.text)
    except ArithmeticError:
        return value.text


def normalised(value: Any) -> Any:
    """Return a case's JSON with numbers and times made comparable, and without what a schema adds."""
    match value:
        case {"$date": text}:
            return date.fromisoformat(text)
        case {"$datetime": text}:
            return datetime.fromisoformat(text)
        case {"type": "filter"}:
            return {"modifiers": {}} | {key: normalised(part) for key, part in value.items()}
        case dict():
            return {key: normalised(part) for key, part in value.items() if key != "value_type"}
        case list():
            return [normalised(part) for part in value]
        case bool():
            return value
        case int() | float():
            return Decimal(str(value))
        case _:
            return value


def paths_of_kind(case: dict[str, Any], *kinds: str) -> frozenset[str]:
    """Return the paths that the case's schema declares as one of these kinds, or as a list of it."""
    schema: dict[str, str] = case.get("schema", {})
    return frozenset(path for path, kind in schema.items() if kind.removeprefix("list:") in kinds)


def without_cast_values(case: dict[str, Any], rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rules without the values of numbers and times that only the schema makes such."""
    cast = paths_of_kind(case, "integer", "float", "datetime") - {"timestamp"}
    return [{key: part for key, part in rule.items() if key != "value" or rule["path"] not in cast} for rule in rules]


def name(case: dict[str, Any]) -> str:
    return ascii(case["lql"])[:60]


@pytest.mark.parametrize("case", ACCEPTED, ids=name)
def test_reads_what_the_case_says(case: dict[str, Any]) -> None:
    texts = paths_of_kind(case, "string")
    found = [written for rule in parse_lql(case["lql"]) for written in as_case(rule, texts)]
    assert without_cast_values(case, found) == without_cast_values(case, normalised(case["rules"]))


@pytest.mark.parametrize("case", REFUSED, ids=name)
def test_refuses_with_a_place(case: dict[str, Any]) -> None:
    with pytest.raises(InvalidLQL) as refused:
        parse_lql(case["lql"])
    (detail,) = refused.value.details
    assert 1 <= detail["line"] <= case["lql"].count("\n") + 1
    assert 1 <= detail["column"] <= len(case["lql"]) + 1
    assert detail["reason"]


@pytest.mark.parametrize("case", DECIDED_BY_SCHEMA, ids=name)
def test_reads_what_only_a_schema_refuses(case: dict[str, Any]) -> None:
    assert parse_lql(case["lql"]).filters


@pytest.mark.parametrize("case", [case for case in ACCEPTED if "encoded" in case], ids=name)
def test_prints_the_canonical_text(case: dict[str, Any]) -> None:
    printed = print_lql(parse_lql(case["lql"]))
    assert (printed == case["encoded"]) is (case["lql"] not in ENCODED_OTHERWISE)


@pytest.mark.parametrize("case", ACCEPTED, ids=name)
def test_prints_what_reads_back_as_the_same(case: dict[str, Any]) -> None:
    rules = parse_lql(case["lql"])
    assert parse_lql(print_lql(rules)) == rules


def test_leaves_no_case_out() -> None:
    assert len(ACCEPTED) + len(REFUSED) + len(DECIDED_BY_SCHEMA) == len(CASES)
    assert len(DECIDED_BY_SCHEMA) == 5
    assert {*DEVIATIONS, *ENCODED_OTHERWISE} <= {case["lql"] for case in CASES}
