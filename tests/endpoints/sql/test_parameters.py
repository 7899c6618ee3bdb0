from __future__ import annotations

import json
from typing import Any

import pytest

from endpoints.errors import InvalidParameters
from endpoints.results.outcomes import BoundValue
from endpoints.sql.lexemes import LexicalError
from endpoints.sql.parameters import (
    DeclaredParameter,
    ParameterType,
    RawValue,
    UnacceptableValue,
    check_declarations,
    coerce_arguments,
    coerce_value,
    effective_parameters,
    find_parameters,
)
from tests.files import cases

T = ParameterType
CASES = cases("parameter_lexing.jsonl")


@pytest.mark.parametrize("case", CASES, ids=lambda case: ascii(case["sql"]))
def test_finds_exactly_the_parameters(case: dict[str, Any]) -> None:
    if "refused_at" in case:
        with pytest.raises(LexicalError) as refusal:
            find_parameters(case["sql"])
        assert refusal.value.position == case["refused_at"]
    else:
        assert find_parameters(case["sql"]) == tuple(case["parameters"])


def test_the_table_of_texts_is_large() -> None:
    assert len(CASES) >= 80


def details_of(declared: list[DeclaredParameter], raw: dict[str, RawValue]) -> list[dict[str, object]]:
    with pytest.raises(InvalidParameters) as refusal:
        coerce_arguments(declared, raw)
    return [dict(detail) for detail in refusal.value.details]


PROJECT = DeclaredParameter("project", required=True)
START = DeclaredParameter("start", T.TIMESTAMP)
INTERVAL = DeclaredParameter("interval", required=True, allowed_values=("minutely", "hourly", "daily"))


def test_binds_every_declared_parameter_in_its_order() -> None:
    arguments = coerce_arguments([START, PROJECT], {"project": "abc", "start": "2025-06-02"})
    assert list(arguments.items()) == [("start", "2025-06-02T00:00:00.000000Z"), ("project", "abc")]


def test_ignores_names_that_are_not_declared() -> None:
    assert coerce_arguments([PROJECT], {"project": "abc", "Project": "x", "other": "\x00"}) == {"project": "abc"}


@pytest.mark.parametrize("nothing", [{}, {"p": None}, {"p": ""}, {"p": []}, {"p": [""]}])
@pytest.mark.parametrize("type_", list(ParameterType))
def test_an_absent_optional_argument_is_null(nothing: dict[str, RawValue], type_: ParameterType) -> None:
    assert coerce_arguments([DeclaredParameter("p", type_)], nothing) == {"p": None}


@pytest.mark.parametrize("nothing", [{}, {"p": None}, {"p": ""}])
@pytest.mark.parametrize(
    ("type_", "default", "bound"),
    [
        (T.INTEGER, "+5", "5"),
        (T.INTEGER, 0, "0"),
        (T.BOOLEAN, False, "false"),
        (T.TIMESTAMP, "2025-06-02", "2025-06-02T00:00:00.000000Z"),
        (T.TEXT_LIST, ["a", "b"], ["a", "b"]),
        (T.TEXT, "", None),
    ],
)
def test_an_absent_argument_takes_the_default(
    nothing: dict[str, RawValue], type_: ParameterType, default: RawValue, bound: BoundValue
) -> None:
    assert coerce_arguments([DeclaredParameter("p", type_, default=default)], nothing) == {"p": bound}


def test_a_required_argument_may_come_from_the_default() -> None:
    assert coerce_arguments([DeclaredParameter("p", required=True, default="x")], {}) == {"p": "x"}


def test_lists_every_problem_and_never_a_value() -> None:
    declared = [
        PROJECT,
        START,
        INTERVAL,
        DeclaredParameter("limit", T.INTEGER, minimum="1", maximum="+10"),
        DeclaredParameter("code", pattern="[a-z]+"),
        DeclaredParameter("fine"),
    ]
    details = details_of(
        declared, {"start": "secret1", "interval": "secret2", "limit": 11, "code": "secret3", "fine": "x"}
    )
    assert [(detail["name"], detail["reason"]) for detail in details] == [
        ("project", "is required"),
        ("start", "is not a time in ISO 8601, such as 2025-06-02T08:15:02Z or 2025-06-02T10:15:02+02:00"),
        ("interval", "is not one of the allowed values"),
        ("limit", "is above the maximum"),
        ("code", "does not match the pattern"),
    ]
    assert details[2]["allowed_values"] == ["minutely", "hourly", "daily"]
    assert details[3]["maximum"] == "+10"
    assert details[4]["pattern"] == "[a-z]+"
    assert "secret" not in json.dumps(details)


def test_tells_the_allowed_values_of_a_missing_argument() -> None:
    assert details_of([INTERVAL], {}) == [
        {"name": "interval", "reason": "is required", "allowed_values": ["minutely", "hourly", "daily"]}
    ]


@pytest.mark.parametrize(
    ("declared", "raw", "bound"),
    [
        (DeclaredParameter("p", T.NUMBER, allowed_values=("1.0", "2")), "1e0", "1"),
        (DeclaredParameter("p", T.BOOLEAN, allowed_values=("yes",)), "1", "true"),
        (DeclaredParameter("p", T.TEXT_LIST, allowed_values=("a", "b")), ["b", "a", "b"], ["b", "a", "b"]),
        (DeclaredParameter("p", T.TEXT_LIST, pattern="[ab]"), "a", ["a"]),
        (DeclaredParameter("p", T.NUMBER, minimum="9", maximum="10"), "10.000", "10"),
        (DeclaredParameter("p", T.INTEGER, minimum="-5"), "-5", "-5"),
        (DeclaredParameter("p", T.DATE, maximum="2025-06-02"), "2025-06-02", "2025-06-02"),
        (
            DeclaredParameter("p", T.TIMESTAMP, minimum="2025-06-02T02:00:00+02:00"),
            "2025-06-02",
            "2025-06-02T00:00:00.000000Z",
        ),
    ],
)
def test_constraints_compare_values_not_spellings(
    declared: DeclaredParameter, raw: RawValue, bound: BoundValue
) -> None:
    assert coerce_value(declared, raw) == bound


@pytest.mark.parametrize(
    ("declared", "raw", "reason"),
    [
        (DeclaredParameter("p", allowed_values=("a",)), "A", "allowed values"),
        (DeclaredParameter("p", T.TEXT_LIST, allowed_values=("a",)), ["a", "b"], "allowed values"),
        (DeclaredParameter("p", T.TEXT_LIST, pattern="[ab]"), ["a", "ab"], "pattern"),
        (DeclaredParameter("p", pattern="a|b"), "ab", "pattern"),
        (DeclaredParameter("p", pattern="a"), "a\n", "pattern"),
        (DeclaredParameter("p", T.INTEGER, minimum="9"), "8", "minimum"),
        (DeclaredParameter("p", T.INTEGER, maximum="9"), "10", "maximum"),
        (DeclaredParameter("p", T.NUMBER, maximum="-2"), "-1.5", "maximum"),
        (DeclaredParameter("p", T.TIMESTAMP, maximum="2025-06-02"), "2025-06-02T00:00:00.000001Z", "maximum"),
    ],
)
def test_refuses_values_outside_the_constraints(declared: DeclaredParameter, raw: RawValue, reason: str) -> None:
    with pytest.raises(UnacceptableValue, match=reason):
        coerce_value(declared, raw)


def test_adds_an_optional_text_parameter_for_every_undeclared_name() -> None:
    sql = "select @project, @other, '@none', @start, @another"
    assert effective_parameters([START, PROJECT], sql) == (
        START,
        PROJECT,
        DeclaredParameter("other"),
        DeclaredParameter("another"),
    )


@pytest.mark.parametrize(
    ("declared", "sql", "problems"),
    [
        ([PROJECT, START, INTERVAL], "select @project, @start, @interval, @more", []),
        ([PROJECT], "select 1", [("project", "not used in the SQL")]),
        ([PROJECT], "select '@project'", [("project", "appears only in a string")]),
        ([PROJECT], "select a <@project", [("project", "directly after an operator such as `<@`")]),
        (
            [PROJECT],
            "select @Project",
            [("project", "upper and lower"), ("Project", "upper and lower"), ("project", "not")],
        ),
        ([PROJECT, PROJECT], "select @project", [("project", "more than once")]),
        ([DeclaredParameter("1a")], "select 1", [("1a", "not a name"), ("1a", "not used")]),
        ([DeclaredParameter("naïve")], "select 1", [("naïve", "not a name"), ("naïve", "not used")]),
        ([], f"select @{'a' * 64}", [("a" * 64, "longer than 63")]),
        ([], "select @sql", [("sql", "reserved")]),
        ([DeclaredParameter("p", minimum="1")], "select @p", [("p", "type text has no order")]),
        ([DeclaredParameter("p", T.TEXT_LIST, maximum="1")], "select @p", [("p", "has no order")]),
        ([DeclaredParameter("p", T.INTEGER, pattern="1")], "select @p", [("p", "cannot have a pattern")]),
        (
            [DeclaredParameter("p", T.INTEGER, minimum="x", maximum="")],
            "select @p",
            [("p", "minimum is not"), ("p", "maximum is empty")],
        ),
        ([DeclaredParameter("p", T.INTEGER, minimum="10", maximum="9")], "select @p", [("p", "minimum is above")]),
        (
            [DeclaredParameter("p", T.INTEGER, minimum="5", default=4)],
            "select @p",
            [("p", "default is below the minimum")],
        ),
        ([DeclaredParameter("p", T.INTEGER, default="x")], "select @p", [("p", "default is not an integer")]),
        ([DeclaredParameter("p", default=["a"])], "select @p", [("p", "default takes one value")]),
        (
            [DeclaredParameter("p", T.DATE, allowed_values=("x", "2025-06-02"))],
            "select @p",
            [("p", "allowed value is not a date")],
        ),
        ([DeclaredParameter("p", allowed_values=("",))], "select @p", [("p", "allowed value is empty")]),
        (
            [DeclaredParameter("p", T.INTEGER, allowed_values=("1", "9"), maximum="5")],
            "select @p",
            [("p", "allowed value is above")],
        ),
        ([DeclaredParameter("p", allowed_values=("a",), default="b")], "select @p", [("p", "default is not one of")]),
        ([DeclaredParameter("p", pattern="(")], "select @p", [("p", "pattern is not a regular expression")]),
        ([DeclaredParameter("p", pattern="a+", default="b")], "select @p", [("p", "default does not match")]),
        (
            [DeclaredParameter("p", T.TEXT_LIST, pattern="a", allowed_values=("a", "b"))],
            "select @p",
            [("p", "allowed value does not")],
        ),
    ],
)
def test_tells_why_declarations_cannot_be_saved(
    declared: list[DeclaredParameter], sql: str, problems: list[tuple[str, str]]
) -> None:
    found = check_declarations(declared, sql)
    assert [problem.name for problem in found] == [name for name, _ in problems]
    for problem, (_, reason) in zip(found, problems, strict=True):
        assert reason in problem.reason


@pytest.mark.parametrize(
    "declared",
    [
        DeclaredParameter("p"),
        DeclaredParameter("p", T.TEXT_LIST, required=True, default=["a", "b"], description="which"),
        DeclaredParameter("p", T.INTEGER, default=5, minimum="1", maximum="9", allowed_values=("5", "6")),
        DeclaredParameter("p", T.TEXT, pattern=r"\d+"),
    ],
)
def test_declarations_survive_json(declared: DeclaredParameter) -> None:
    assert DeclaredParameter.from_json(json.loads(json.dumps(declared.to_json()))) == declared
    assert hash(declared) == hash(DeclaredParameter.from_json(declared.to_json()))


def test_reads_a_declaration_with_its_name_alone() -> None:
    assert DeclaredParameter.from_json({"name": "p"}) == DeclaredParameter("p")


@pytest.mark.parametrize(
    ("json_form", "error"),
    [({"name": "p", "type": "json"}, ValueError), ({"name": "p", "kind": "text"}, TypeError), ({}, TypeError)],
)
def test_refuses_an_unknown_declaration(json_form: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        DeclaredParameter.from_json(json_form)
